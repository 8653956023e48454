"""The server's application, called in this process as a client calls it over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.server import create_app

BASE = "http://localhost"


@asynccontextmanager
async def running_app(*, with_worker: bool = False, **settings: Any) -> AsyncGenerator[FastAPI]:
    """The application between its start and its end, with these settings changed."""
    app = create_app(load_settings(**settings), with_worker=with_worker)
    async with app.router.lifespan_context(app):
        yield app


@asynccontextmanager
async def client_of(app: FastAPI, **options: Any) -> AsyncGenerator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=BASE, **options) as client:
        yield client


@asynccontextmanager
async def running_client(*, with_worker: bool = False, **settings: Any) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of an application of its own."""
    async with running_app(with_worker=with_worker, **settings) as app, client_of(app) as client:
        yield client
