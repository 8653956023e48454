"""Which requests need no key, which scope the others need, and which change something: said here and nowhere else.

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
from starlette.routing import compile_path
from starlette.types import Scope

from soliplex.ingester.lib.enums import Scope as Needed

OPEN: Final = {
    "/health": "a supervisor that asks whether the process lives has no key; it learns the version, and nothing else",
    "/": "a browser has no key, and is led to the web UI; a program learns the name and the version, and where to go",
    "/ui": "leads to `/ui/`",
    "/ui/": "the web UI, the same on every server; whoever uses it has to log in to see anything",
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
    "/api/v1/session": "a browser asks whether it has to log in, and learns its own name and scopes",
    "/health/ready": "a load balancer has no key; why a part fails is told only to those who have it",
}
OPEN_BELOW: Final = {
    "/ui/": "the files that the web UI is made of, the same on every server",
}
"""Folders of which everything is open: routes whose path goes on with a name, and nothing else, may stand there."""
LOGGING_IN: Final = "/api/v1/session"
"""The path of logging in and out. Logging in sends the key in the body and not in the head; logging out may send none.
"""
CHANGING_GETS: Final = {
    "/api/v1/lancedb/vacuum": "compacts the database, since clients in the field send it so",
    "/api/v1/document/validate_storage": "with `clean_up=true` deletes what is known of documents that are not stored",
}
"""Routes by GET that change something. Each is also offered as POST."""
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


_API: Final = "/api/v1"
SCOPES: Final[dict[str, Needed]] = {
    "POST /batch/": Needed.INGEST,
    "POST /batch/fetch-documents": Needed.INGEST,
    "POST /batch/start-workflows": Needed.INGEST,
    "POST /document/ingest-document": Needed.INGEST,
    "POST /document/upload": Needed.INGEST,
    "POST /source-status": Needed.INGEST,
    "PUT /sync-state/{source_id:path}": Needed.INGEST,
    "POST /workflow/": Needed.INGEST,
    "POST /flows/{slug}/runs": Needed.INGEST,
    "POST /jobs": Needed.INGEST,
    "POST /goals/plan": Needed.INGEST,
    "DELETE /document/by-uri": Needed.OPERATE,
    "POST /document/cleanup-orphans": Needed.OPERATE,
    "POST /document/delete-uris": Needed.OPERATE,
    "POST /document/rollback": Needed.OPERATE,
    "POST /document/validate_storage": Needed.OPERATE,
    "DELETE /sync-state/{source_id:path}": Needed.OPERATE,
    "POST /flows/": Needed.OPERATE,
    "DELETE /flows/{slug}": Needed.OPERATE,
    "POST /flows/{slug}/optimize": Needed.OPERATE,
    "POST /flows/runs/{run_id}/cancel": Needed.OPERATE,
    "POST /flows/runs/{run_id}/retry": Needed.OPERATE,
    "POST /flows/schedules": Needed.OPERATE,
    "DELETE /flows/schedules/{name}": Needed.OPERATE,
    "POST /flows/schedules/{name}/pause": Needed.OPERATE,
    "POST /flows/schedules/{name}/resume": Needed.OPERATE,
    "POST /flows/signals/{key:path}": Needed.OPERATE,
    "POST /goals/": Needed.OPERATE,
    "POST /signals/{key:path}": Needed.OPERATE,
    "GET /lancedb/vacuum": Needed.OPERATE,
    "POST /lancedb/vacuum": Needed.OPERATE,
    "DELETE /jobs/{jobid}": Needed.OPERATE,
    "PATCH /jobs/{jobid}": Needed.OPERATE,
    "POST /jobs/{jobid}/retry": Needed.OPERATE,
    "POST /tasks/claim": Needed.OPERATE,
    "POST /tasks/complete": Needed.OPERATE,
    "POST /tasks/extend": Needed.OPERATE,
    "POST /tasks/fail": Needed.OPERATE,
    "POST /webhooks/redeliver": Needed.OPERATE,
    "POST /webhooks/{message_id:int}/redeliver": Needed.OPERATE,
    "POST /workflow/param-sets": Needed.OPERATE,
    "POST /workflow/param-sets/check": Needed.READ,
    "DELETE /workflow/param-sets/{set_id}": Needed.OPERATE,
    "POST /workflow/retry": Needed.OPERATE,
    "DELETE /workflow/run-groups/{run_group_id}": Needed.OPERATE,
    "POST /workflow/run-groups/{run_group_id}/cancel": Needed.OPERATE,
    "POST /workflow/runs/{run_id}/cancel": Needed.OPERATE,
    "GET /audit": Needed.OPERATE,
    "GET /keys": Needed.ADMIN,
    "POST /keys": Needed.ADMIN,
    "DELETE /keys/{name}": Needed.ADMIN,
}
"""The scope that a request needs: of all requests that change something, and of those that read more than the scope
`read` allows. The paths stand without the prefix, and without the second address or spelling that some routes have."""
WITH_OPERATE: Final = {
    "POST /source-status": "delete_stale",
    "GET /document/validate_storage": "clean_up",
}
"""Requests that delete something where this field is true: then they need `operate`, whatever else they need."""
NOT_IN_THE_LOG: Final = frozenset({"/tasks/claim", "/tasks/complete", "/tasks/extend", "/tasks/fail"})
"""The calls of workers outside, which they make all the time. They repeat or delete nothing, and the history of each
step tells of them."""


def known_as(method: str, path: str) -> str:
    """A route as `SCOPES` names it."""
    short = path.removeprefix(_API).removeprefix("/segmenter").replace("run_groups", "run-groups")
    return f"{method} {short.replace('param_sets', 'param-sets')}"


def scope_of(method: str, path: str) -> Needed | None:
    """The scope that a method of a route needs; None if nobody has said."""
    stated = SCOPES.get(known_as("GET" if method == "HEAD" else method, path))
    return stated or (Needed.READ if method in SAFE_METHODS else None)


class Routes:
    """The routes of an application, to find the one that a request is for before its body is read."""

    def __init__(self, app: FastAPI) -> None:
        self._routes = [
            (compile_path(context.path)[0], context.path, frozenset(context.methods or ()))
            for context in iter_route_contexts(app.routes)
            if context.path
        ]

    def path_for(self, scope: Scope) -> str | None:
        """The path of the route as the router would choose it; None where it would choose none."""
        path, method = path_of(scope), scope["method"]
        return next((name for fits, name, methods in self._routes if method in methods and fits.match(path)), None)


def path_of(scope: Scope) -> str:
    """The path of a request, below the root path: the one that the router goes by."""
    return get_route_path(scope)


def is_open(scope: Scope) -> bool:
    """Whether the request needs no key. Anything but reading exactly an open path needs one."""
    if scope["type"] != "http":
        return False
    path, method = path_of(scope), scope["method"]
    if method in {"GET", "HEAD"}:
        return reason_to_be_open(path) is not None
    return path == LOGGING_IN and method in {"POST", "DELETE"}


def reason_to_be_open(path: str) -> str | None:
    """Why what is read at this path needs no key; None if it needs one."""
    return OPEN.get(path) or next((why for folder, why in OPEN_BELOW.items() if path.startswith(folder)), None)


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
    scope: Needed | None
    """The scope that a key must have; None where it is open."""


def routes_of(app: FastAPI) -> Iterator[RouteAccess]:
    """Every method of every route, those too that the OpenAPI document leaves out, in the order of their paths."""
    found = {
        (context.path or "", method) for context in iter_route_contexts(app.routes) for method in context.methods or ()
    }
    for path, method in sorted(found):
        by_get = CHANGING_GETS.get(path, "") if method in SAFE_METHODS else ""
        reason = (
            reason_to_be_open(path) if path != LOGGING_IN or method in SAFE_METHODS else "logs a browser in, or out"
        )
        scope = None if reason else scope_of(method, path)
        yield RouteAccess(method, path, reason, bool(by_get) or method not in SAFE_METHODS, by_get, scope)
