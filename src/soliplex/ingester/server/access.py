"""Which requests need no key, and which change something: said here and nowhere else.

Everything is behind the key: each route, and each path at which there is no route. `OPEN` names the exceptions, with
the reason for each. Whoever asks goes by `path_of`, which is the path that the router compares with its routes; in
`scope["path"]` the root path of `si-cli serve --root-path` stands in front of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette._utils import get_route_path
from starlette.types import Scope

OPEN: Final = {
    "/health": "a supervisor that asks whether the process lives has no key; it learns the version, and nothing else",
    "/": "a browser has no key; it learns the name and the version, and where to go",
    "/docs": "a browser has no key; the page holds nothing, and asks for the key to show `/openapi.json`",
    "/redoc": "as `/docs`",
    "/docs/page.js": "what `/docs` and `/redoc` are made of, the same on every server",
    "/docs/page.css": "as `/docs/page.js`",
    "/docs/swagger-ui-bundle.js": "as `/docs/page.js`",
    "/docs/swagger-ui.css": "as `/docs/page.js`",
    "/docs/redoc.standalone.js": "as `/docs/page.js`",
    "/debug/health": "as `/health`, for clients of the segmenter",
    "/debug/health_with_details": "as `/health/ready`, for clients of the segmenter",
    "/api/v1/segmenter/": "as `/`, for clients that know the segmenter by this address",
    "/api/v1/segmenter/debug/health": "as `/debug/health`",
    "/api/v1/segmenter/debug/health_with_details": "as `/debug/health_with_details`",
    "/health/ready": "a load balancer has no key; why a part fails is told only to those who have it",
}
CHANGING_GETS: Final = {
    "/api/v1/lancedb/vacuum": "compacts the database, since clients in the field send it so",
    "/api/v1/document/validate_storage": "with `clean_up=true` deletes what is known of documents that are not stored",
}
"""Routes by GET that change something. Each is also offered as POST."""
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def path_of(scope: Scope) -> str:
    """The path of a request, below the root path: the one that the router goes by."""
    return get_route_path(scope)


def is_open(scope: Scope) -> bool:
    """Whether the request needs no key. Anything but reading exactly an open path needs one."""
    return scope["type"] == "http" and scope["method"] in {"GET", "HEAD"} and path_of(scope) in OPEN


def changes_state(scope: Scope) -> bool:
    """Whether the request may change something. A request of an unknown method is taken for one that does."""
    return scope["method"] not in SAFE_METHODS or path_of(scope) in CHANGING_GETS


@dataclass(frozen=True, slots=True)
class RouteAccess:
    """What one method at one path needs and does."""

    method: str
    path: str
    open_because: str | None
    changes: bool
    note: str


def routes_of(app: FastAPI) -> Iterator[RouteAccess]:
    """Every method of every route, those too that the OpenAPI document leaves out, in the order of their paths."""
    found = {
        (context.path or "", method) for context in iter_route_contexts(app.routes) for method in context.methods or ()
    }
    for path, method in sorted(found):
        by_get = CHANGING_GETS.get(path, "") if method in SAFE_METHODS else ""
        yield RouteAccess(method, path, OPEN.get(path), bool(by_get) or method not in SAFE_METHODS, by_get)
