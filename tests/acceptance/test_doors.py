"""Who gets in: every route, every method, under every spelling of its path, with and without the key."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.server import create_app
from soliplex.ingester.server.access import CHANGING_GETS, LOGGING_IN, OPEN, OPEN_BELOW, RouteAccess, routes_of
from soliplex.ingester.server.rate_limit import INGEST_PATHS
from soliplex.ingester.server.routes import segmenter, uploads
from tests.support.http import running_app, running_client
from tests.support.serving import serving

KEY = "correct horse battery staple"
WITH_KEY = {"Authorization": f"Bearer {KEY}"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
UPLOADS = ("/api/v1/document/ingest-document", "/api/v1/document/upload")
JOBS = ("/jobs", "/api/v1/segmenter/jobs")
TAKING = (uploads.ingest_document, segmenter.create_job)
ENDLESS = {
    "/api/v1/events": "?run_group_id=404",  # a group that is not there ends the stream
    "/api/v1/goals/events": "?name=nothing",
}
"""Streams, and what to ask of them so that they end."""


class Prefixed:
    """Does with the root path what uvicorn does: it tells of it, and writes it in front of the path."""

    def __init__(self, app: Any, root_path: str) -> None:
        self._app = app
        self._root_path = root_path

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        moved = {"root_path": self._root_path, "path": self._root_path + scope["path"]}
        await self._app({**scope, **moved}, receive, send)


def concrete(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "1", path)


def encoded(path: str) -> str:
    """The path with its last letter as %xx."""
    return f"{path[:-1]}%{ord(path[-1]):02X}"


SPELLINGS = {
    "plain": str,
    "slash": lambda path: path.rstrip("/") if path.endswith("/") else f"{path}/",
    "encoded": encoded,
    "newline": lambda path: f"{path}%0A",
    "doubled": lambda path: f"/{path}",
}


def requests_of(app: FastAPI) -> Iterator[tuple[RouteAccess | None, str, str]]:
    """Every method at every path there is, also those that a path does not take; and paths at which nothing is."""
    known = {(each.method, each.path): each for each in routes_of(app)}
    paths = dict.fromkeys(each.path for each in known.values())
    for path in paths:
        for method in METHODS:
            yield known.get((method, path)), method, concrete(path)
    for nothing in ("/", "/nothing", "/api", "/api/v1", "/api/v1/nothing", "/healthy", "/health/other", "/docs/x"):
        for method in METHODS:
            yield None, method, nothing


def wrapped(app: FastAPI, root_path: str, *, proxied: bool) -> Any:
    served: Any = app
    behind = ProxyHeadersMiddleware(served, "*") if proxied else served
    return Prefixed(behind, root_path) if root_path else behind


PROXIED = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/health"}


@pytest.fixture
async def guarded_app() -> AsyncIterator[FastAPI]:
    async with running_app(api_key_enabled=True, api_key=KEY, rate_limit_ingest="100000/second") as app:
        yield app


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "proxied"])
@pytest.mark.parametrize("root_path", ["", "/x", "/health"])
async def test_without_the_key_only_what_is_marked_open_is_answered(
    guarded_app: FastAPI, root_path: str, proxied: bool, spelling: str
) -> None:
    transport = httpx.ASGITransport(wrapped(guarded_app, root_path, proxied=proxied), raise_app_exceptions=False)
    headers = PROXIED if proxied else {}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        asked = 0
        for route, method, path in requests_of(guarded_app):
            root = path == "/"  # there is no other way to write it
            # In full: of a relative address, httpx takes what follows two slashes for a host.
            spelled = path if root else SPELLINGS[spelling](path)
            answer = await client.request(method, f"http://localhost{spelled}")
            asked += 1
            if path == LOGGING_IN and method in {"POST", "DELETE"}:
                continue  # logging in and out: tests/acceptance/test_keys.py
            is_below = any(unquote(spelled).startswith(folder) for folder in OPEN_BELOW)
            is_plain = root or spelling in {"plain", "encoded"} or unquote(spelled) == "/ui"
            is_open = ((is_plain and path in OPEN) or is_below) and method in {"GET", "HEAD"}
            what = f"{method} {answer.request.url} below {root_path!r}: {answer.status_code}"
            assert (answer.status_code == 401) is not is_open, what
            # Below `/ui/` nothing is there but what was built, and `/ui` leads there.
            statuses = {200, 400, 404, 503} if is_below else {308} if unquote(spelled) == "/ui" else {200}
            assert route is None or not is_open or answer.status_code in statuses, what
    assert asked > 400


@pytest.mark.parametrize("spelling", ["plain", "slash", "encoded"])
@pytest.mark.parametrize("root_path", ["", "/x"])
async def test_with_the_key_nobody_is_turned_away_for_want_of_it(
    guarded_app: FastAPI, root_path: str, spelling: str
) -> None:
    transport = httpx.ASGITransport(wrapped(guarded_app, root_path, proxied=False), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=WITH_KEY) as client:
        for _, method, path in requests_of(guarded_app):
            if method == "GET":
                path += ENDLESS.get(path, "")  # noqa: PLW2901
            if path == LOGGING_IN and method == "POST":
                continue
            answer = await client.request(method, SPELLINGS[spelling](path) if "?" not in path else path)
            assert answer.status_code not in {401, 403}, f"{method} {path}"
            assert answer.status_code < 500, f"{method} {path}: {answer.text}"


@pytest.mark.parametrize("setting", ["auth_trust_proxy_headers", "api_key_enabled"])
async def test_the_api_is_described_to_everyone_only_where_nobody_is_asked(setting: str) -> None:
    async with running_client() as client:
        assert (await client.get("/openapi.json")).status_code == 200
        empty = [(await client.get(page)).text for page in ("/docs", "/redoc")]
    async with running_client(api_key=KEY, **{setting: True}) as client:
        assert (await client.get("/openapi.json")).status_code == 401
        # The pages themselves are the same for all: what they show, they fetch with the key that they ask for.
        assert [(await client.get(page)).text for page in ("/docs", "/redoc")] == empty
        assert not any("/api/v1" in page for page in empty)


async def test_a_websocket_is_closed_before_it_is_open(guarded_app: FastAPI) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/api/v1/events", "root_path": "", "headers": [], "query_string": b""}
    await guarded_app({**scope, "asgi": {"version": "3.0"}, "scheme": "ws", "subprotocols": []}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_why_a_part_fails_is_told_only_to_those_who_have_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("LANCEDB_DIR", str(tmp_path / "file" / "lancedb"))
    async with running_client(api_key_enabled=True, api_key=KEY) as client:
        to_a_stranger = await client.get("/health/ready")
        to_a_friend = await client.get("/health/ready", headers=WITH_KEY)
    assert to_a_stranger.status_code == to_a_friend.status_code == 503
    assert to_a_stranger.json()["checks"]["rag"] == {"status": "failed", "detail": None}
    assert str(tmp_path) not in to_a_stranger.text
    assert str(tmp_path) in to_a_friend.json()["checks"]["rag"]["detail"]


@pytest.mark.parametrize("root_path", ["", "/x", "/x/"])
@pytest.mark.parametrize("path", UPLOADS)
async def test_no_spelling_of_an_upload_passes_by_the_rate_limit(path: str, root_path: str) -> None:
    async with running_app(rate_limit_ingest="1/day") as app:
        transport = httpx.ASGITransport(wrapped(app, root_path, proxied=False), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await client.post(path)
            spelled = {name: f"http://localhost{spell(path)}" for name, spell in SPELLINGS.items()}
            found = {name: (await client.post(address)).status_code for name, address in spelled.items()}
    # What is no upload has no allowance to use up: a redirect, a path at which nothing is, one that cannot be.
    assert found == {"plain": 429, "encoded": 429, "slash": 307, "newline": 400, "doubled": 404}


def test_every_route_that_takes_a_document_has_the_rate_limit() -> None:
    app = create_app(load_settings(), with_worker=False)
    taking = {each.path for each in iter_route_contexts(app.routes) if each.endpoint in TAKING}
    assert taking == INGEST_PATHS == {*UPLOADS, *JOBS}


def test_what_is_marked_is_there() -> None:
    routes = {(each.method, each.path) for each in routes_of(create_app(load_settings(), with_worker=False))}
    assert {("GET", path) for path in OPEN} <= routes
    assert {(method, path) for path in CHANGING_GETS for method in ("GET", "POST")} <= routes


async def test_below_a_root_path_metrics_and_policies_are_the_same() -> None:
    async with running_app() as app:
        transport = httpx.ASGITransport(Prefixed(app, "/x"))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await client.get("/api/v1/stats/rates")
            assert 'route="/api/v1/stats/rates"' in (await client.get("/metrics")).text
            assert "script-src 'self'" in (await client.get("/docs")).headers["content-security-policy"]
            refused = await client.put("/api/v1/batch/")
    assert refused.headers["allow"] == "GET, POST"


def test_a_server_process_asks_for_the_key_wherever_it_is_shown(tmp_path: Path) -> None:
    environment = {"API_KEY_ENABLED": "true", "API_KEY": KEY, "RATE_LIMIT_INGEST": "1/day"}
    routes = create_app(load_settings(), with_worker=False)
    options = ("--no-worker", "--root-path", "/x", "--proxy-headers")
    with serving(tmp_path, *options, environment=environment) as server:
        with server.client(headers=PROXIED) as client:
            for _, method, path in requests_of(routes):
                if path == LOGGING_IN:
                    continue
                for spelling in ("plain", "encoded") if path != "/" else ("plain",):
                    spelled = SPELLINGS[spelling](path)
                    answer = client.request(method, spelled)
                    is_below = any(unquote(spelled).startswith(folder) for folder in OPEN_BELOW)
                    is_open = (path in OPEN or is_below) and method in {"GET", "HEAD"}
                    assert (answer.status_code == 401) is not is_open, f"{method} {answer.request.url}"
        with server.client(headers=WITH_KEY) as client:
            assert client.get("/api/v1/workers").status_code == 200
            assert [client.post(UPLOADS[0]).status_code for _ in range(2)] == [400, 429]
