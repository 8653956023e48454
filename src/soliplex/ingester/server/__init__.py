"""The HTTP server: the API under /api/v1, health, metrics, and in the same process a worker.

    routes/       one file per resource; ROUTERS lists them      lifespan.py    database, worker, shutdown
    errors.py     the one table of errors and statuses           middleware.py  what every request passes through
    auth.py       who sends a request                            rate_limit.py  how often and how many uploads
    access.py     what is open, what changes something           sites.py       what pages of others may send
    connections.py  bounds on heads, before anyone is asked      slots.py       turns of those who wait for bytes
    bodies.py     how large and how slow a body may be           forms.py       forms of any size
    parameters.py what several routes take and give              pages.py       what a browser is shown
    ui/           the web UI, as it was built                    sharing.py     answers that many ask for
    health.py  metrics.py

Knows documents and the engine by their operations and views; nothing but the command line imports it.
"""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute

from soliplex.ingester import __version__
from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.wiring import wiring_for
from soliplex.ingester.server import health, metrics, pages, ui
from soliplex.ingester.server.auth import DOCUMENTED
from soliplex.ingester.server.errors import error_answers, install_error_answers
from soliplex.ingester.server.lifespan import lifespan_of
from soliplex.ingester.server.middleware import PREFIX, install_middleware
from soliplex.ingester.server.pages import TITLE
from soliplex.ingester.server.parameters import IN_ORDER
from soliplex.ingester.server.routes import ROOT_ROUTERS, ROUTERS, TAGS
from soliplex.ingester.server.sites import Served

__all__ = ["create_app"]


def create_app(settings: Settings | None = None, *, with_worker: bool = True, served: Served | None = None) -> FastAPI:
    """The application; without settings, those of the environment. The database opens when it starts.

    One that is given settings has a wiring of its own: database, stores, definitions and worker. Another beside it in
    the same process sees nothing of it.
    """
    wiring = wiring_for(settings)
    settings = wiring.settings
    app = FastAPI(
        title=TITLE,
        version=__version__,
        description="Documents in, a searchable knowledge base out, through durable workflows.",
        lifespan=lifespan_of(wiring, with_worker=with_worker),
        openapi_tags=TAGS,
        docs_url=None,  # FastAPI's own pages load their scripts from the internet
        redoc_url=None,
        routes=list(_routes(asking_for_key=settings.api_key_enabled)),
    )
    app.state.wiring, app.state.settings = wiring, settings
    install_error_answers(app, debug=settings.debug)
    install_middleware(app, wiring, served or Served())
    return app


@cache
def _routes(*, asking_for_key: bool) -> tuple[BaseRoute, ...]:
    """All routes, worked out once for all applications of this process: they know nothing of the one they belong to.

    FastAPI would work them out at the first request, and keep all others waiting meanwhile.
    """
    all_of_them = APIRouter()
    for router in (pages.router, ui.router, health.router, metrics.router):
        all_of_them.include_router(router)
    # The document asks for a key where the server does, and nowhere else.
    answers, asked = ((400, 401, 403, 422), [DOCUMENTED]) if asking_for_key else ((400, 403, 422), [])
    for router in ROUTERS:
        all_of_them.include_router(
            router, prefix=PREFIX, dependencies=[IN_ORDER, *asked], responses=error_answers(*answers)
        )
    for router in ROOT_ROUTERS:
        all_of_them.include_router(router, dependencies=[IN_ORDER, *asked], include_in_schema=False)
    nowhere = {"type": "http", "method": "GET", "path": "/", "root_path": "", "headers": [], "query_string": b""}
    for each in all_of_them.routes:
        each.matches(dict(nowhere))
    return tuple(all_of_them.routes)
