"""The server's application, called in this process as a client calls it over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from soliplex.ingester.lib.config import Settings, load_settings
from soliplex.ingester.lib.wiring import current_wiring
from soliplex.ingester.server import create_app
from tests.support.loop_watch import application_watched

BASE = "http://localhost"


@asynccontextmanager
async def running_app(*, with_worker: bool = False, **settings: Any) -> AsyncGenerator[FastAPI]:
    """The application between its start and its end, with these settings changed. Nothing may hold its loop.

    It has the wiring of the test: the database that is open, the registry in use.
    """
    with _settings_in_use(load_settings(**settings)):
        app = create_app(with_worker=with_worker)
        schema = _schema_of(app)
        app.openapi = lambda: schema
        with application_watched() as watch:
            async with app.router.lifespan_context(app):
                app.state.loop_watch = watch
                yield app
        watch.see_none_held()


@contextmanager
def _settings_in_use(settings: Settings) -> Generator[None]:
    wiring = current_wiring()
    before = wiring.settings
    wiring.use(settings)
    try:
        yield
    finally:
        wiring.use(before)


_schemas: dict[bool, dict[str, Any]] = {}


def _schema_of(app: FastAPI) -> dict[str, Any]:
    """The document of the API, made once: a server makes its own before it answers anyone."""
    has_key = app.state.settings.api_key_enabled
    if has_key not in _schemas:
        _schemas[has_key] = app.openapi()
    return _schemas[has_key]


@asynccontextmanager
async def client_of(app: FastAPI, **options: Any) -> AsyncGenerator[httpx.AsyncClient]:
    watch = getattr(app.state, "loop_watch", None)  # an application that was not started has none
    transport = httpx.ASGITransport(watch.app(app) if watch else app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=BASE, **options) as client:
        yield client


@asynccontextmanager
async def running_client(*, with_worker: bool = False, **settings: Any) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of an application of its own."""
    async with running_app(with_worker=with_worker, **settings) as app, client_of(app) as client:
        yield client
