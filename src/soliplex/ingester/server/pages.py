"""What a browser is shown beside the web UI: `/`, and the pages about the API, `/docs` and `/redoc`.

All that they load comes from this server, so that they work without the internet. The pages themselves say nothing of
an installation, and are open; what they show is `/openapi.json`, for which they ask the key where one is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import fastapi_offline
from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response

from soliplex.ingester import __version__
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.ui import HOME

router = APIRouter(include_in_schema=False)

TITLE: Final = "Soliplex Ingester"
_OURS: Final = Path(__file__).parent / "assets"
# The files of Swagger UI and ReDoc, which the package fastapi-offline carries.
_THEIRS: Final = Path(fastapi_offline.__file__).parent / "static"
ASSETS: Final = {
    f"/docs/{path.name}": path
    for path in (
        _OURS / "page.js",
        _OURS / "page.css",
        _THEIRS / "swagger-ui-bundle.js",
        _THEIRS / "swagger-ui.css",
        _THEIRS / "redoc.standalone.js",
    )
}
"""Where each file is served; a file that is not named here is not."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src data:; "
    "connect-src 'self'; worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What these pages may load. Swagger UI and ReDoc write styles into their elements, and ReDoc searches in a worker."""
PAGES: Final = frozenset({"/docs", "/redoc"})

ABOUT: Final = {"vendor": "Soliplex", "name": TITLE, "version": __version__}
"""What anyone may know of a server."""

# Addresses are relative, so that they hold below a root path, too.
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/page.css">
{head}</head>
<body>
{body}</body>
</html>
"""
_VIEWER: Final = """\
<form id="key" hidden>
<p>This server does not show its API to everyone: <span id="reason"></span>.</p>
<p><label>API key <input name="key" type="password" autocomplete="off" required></label>
<button>Show the API</button></p>
</form>
<div id="api"></div>
<script src="docs/{library}"></script>
<script src="docs/page.js" data-kind="{kind}"></script>
"""


@router.get("/")
async def start(request: Request) -> Response:
    """Where to go: people are led to the web UI, programs are told what this server is."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(HOME.lstrip("/"), status_code=307, headers={"Vary": "Accept"})
    root = request.scope.get("root_path", "")
    places = {
        "ui": HOME,
        "docs": "/docs",
        "redoc": "/redoc",
        "openapi": "/openapi.json",
        "health": "/health",
        "ready": "/health/ready",
        "metrics": "/metrics",
        "api": "/api/v1",
    }
    return JSONResponse(ABOUT | {name: root + path for name, path in places.items()}, headers={"Vary": "Accept"})


@router.get("/docs")
async def docs() -> HTMLResponse:
    """The API, to try out."""
    style = '<link rel="stylesheet" href="docs/swagger-ui.css">\n'
    viewer = _VIEWER.format(library="swagger-ui-bundle.js", kind="swagger")
    return HTMLResponse(_PAGE.format(title=f"{TITLE}: API", head=style, body=viewer))


@router.get("/redoc")
async def redoc() -> HTMLResponse:
    """The API, to read."""
    viewer = _VIEWER.format(library="redoc.standalone.js", kind="redoc")
    return HTMLResponse(_PAGE.format(title=f"{TITLE}: API", head="", body=viewer))


async def _asset(request: Request) -> FileResponse:
    # Asked for again each time, and answered 304: it may change with the next version of the server.
    return FileResponse(ASSETS[request.scope["route"].path], headers={"Cache-Control": "no-cache"})


for _path in ASSETS:
    router.add_api_route(_path, _asset, methods=["GET"], responses=error_answers(404))
