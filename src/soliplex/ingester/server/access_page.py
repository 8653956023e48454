"""The page of the documentation about who may send which request, made from the routes themselves.

python -m soliplex.ingester.server.access_page > docs/reference/http-access.md
"""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI

from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.server import create_app
from soliplex.ingester.server.access import RouteAccess, routes_of

_INTRODUCTION: Final = """\
# Who may send which request

This page is made from the application's own routes: `python -m soliplex.ingester.server.access_page`.

**Key.** Where `API_KEY_ENABLED` or `AUTH_TRUST_PROXY_HEADERS` is on, every request needs the key or a user that the
proxy names, and is answered 401 without. That holds for paths at which there is nothing, for `/openapi.json`, for any
method, with and without `--root-path`. The pages `/docs` and `/redoc` are empty, and ask for the key before they show
anything; so are the pages of the web UI below `/ui/`. The rows marked *open* are the only exceptions, and those written
exactly so: `/health/` needs the key. With `ALLOWED_ORIGINS` set, a browser's question whether a page may call (a CORS
preflight) is answered without a key too.

**Scope.** What a named key must have: `operate` includes `read`, and `admin` includes all. Without it a request is
answered 403, and told which scope is missing. `API_KEY` of the settings has all scopes, and so has a user whom the
proxy names. `source-status` with `delete_stale=true` and `validate_storage` with `clean_up=true` need `operate`. See
[keys](../howto/keys.md).

**Changes something.** Such a request is refused with 403 when a browser sends it for a page of another origin, unless
`ALLOWED_ORIGINS` names the origin or the request bears the key: see
[which names and pages are answered](../howto/serve.md#which-names-and-pages-are-answered).
"""


def access_page(app: FastAPI) -> str:
    """The page: what holds for all routes, and a table of them."""
    rows = [_row(each) for each in routes_of(app)]
    return "\n".join([_INTRODUCTION, "| method | path | scope | changes something |", "|---|---|---|---|", *rows, ""])


def _row(route: RouteAccess) -> str:
    key = f"open: {route.open_because}" if route.open_because else str(route.scope)
    changes = ("yes" + (f": {route.note}" if route.note else "")) if route.changes else ""
    return f"| {route.method} | `{route.path}` | {key} | {changes} |"


if __name__ == "__main__":
    print(access_page(create_app(load_settings(), with_worker=False)), end="")  # noqa: T201
