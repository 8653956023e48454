"""The server as a whole: health, errors, headers, hosts, origins, keys, rates."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from soliplex.ingester.lib.config import InvalidSettings, load_settings
from soliplex.ingester.lib.errors import ConfigurationError, ConflictError, InvalidInputError, NotFoundError
from soliplex.ingester.lib.fetching import FetchFailedError
from soliplex.ingester.lib.wf.operations import check_in
from soliplex.ingester.server import create_app
from soliplex.ingester.server.errors import STATUSES, RateLimitedError, status_of
from soliplex.ingester.server.middleware import SECURITY_HEADERS
from soliplex.ingester.server.rate_limit import RateLimit
from tests.support.http import client_of, running_app, running_client

KEY = "correct horse battery staple"


async def test_the_server_says_that_it_lives_and_is_ready(client: httpx.AsyncClient) -> None:
    assert (await client.get("/health")).json()["status"] == "ok"
    answer = await client.get("/health/ready")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ready",
        "checks": {name: {"status": "ok", "detail": None} for name in ("database", "storage", "rag")},
    }


async def test_a_server_without_a_place_for_rag_databases_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("LANCEDB_DIR", str(tmp_path / "file" / "lancedb"))
    async with running_client() as client:
        answer = await client.get("/health/ready")
    assert answer.status_code == 503
    assert answer.json()["status"] == "not ready"
    assert answer.json()["checks"]["rag"]["status"] == "failed"
    assert answer.json()["checks"]["database"]["status"] == "ok"


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/", "/api/v2/batch/", "/nothing", "/api/v1/workers/x"])
async def test_an_unknown_path_is_answered_in_json(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code == 404
    assert path in answer.json()["error"]


async def test_a_wrong_method_says_so(client: httpx.AsyncClient) -> None:
    answer = await client.delete("/api/v1/workers")
    assert answer.status_code == 405
    assert answer.json()["error"].startswith("DELETE is not possible at /api/v1/workers")


@pytest.mark.parametrize("query", ["page=0", "page=x", "rows_per_page=0", "rows_per_page=10001", "page=99999999999"])
async def test_a_page_that_cannot_be_names_the_field(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.get(f"/api/v1/workers?{query}")
    assert answer.status_code == 422
    field = query.partition("=")[0]
    assert answer.json()["error"].startswith(f"{field}: ")
    assert answer.json()["detail"][0]["field"] == field


async def test_the_documentation_carries_the_products_own_name(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert document["info"]["title"] == "Soliplex Ingester"
    for page in ("/docs", "/redoc"):
        assert (await client.get(page)).status_code == 200
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation.get("summary"), f"{method} {path}"


async def test_every_answer_has_an_id_and_tells_browsers_what_not_to_do(client: httpx.AsyncClient) -> None:
    for path in ("/health", "/api/v1/nothing"):
        answer = await client.get(path)
        assert answer.headers["x-request-id"]
        assert SECURITY_HEADERS.items() <= {name.title(): value for name, value in answer.headers.items()}.items()
        assert "strict-transport-security" not in answer.headers


async def test_an_id_that_the_client_gave_is_kept_unless_it_could_do_harm(client: httpx.AsyncClient) -> None:
    assert (await client.get("/health", headers={"X-Request-ID": "agent-7"})).headers["x-request-id"] == "agent-7"
    for harmful in ("x" * 200, 'quote"', "two words"):
        answer = await client.get("/health", headers={"X-Request-ID": harmful})
        assert answer.headers["x-request-id"] != harmful


async def test_hsts_is_told_when_it_is_on() -> None:
    async with running_client(enable_hsts=True) as client:
        assert "max-age=" in (await client.get("/health")).headers["strict-transport-security"]


@pytest.fixture
async def guarded() -> AsyncIterator[httpx.AsyncClient]:
    async with running_client(api_key_enabled=True, api_key=KEY) as client:
        yield client


@pytest.mark.parametrize(
    "authorization",
    [None, "Bearer wrong", f"Basic {KEY}", KEY, "Bearer", "Bearer ", f"Bearer {KEY}x", "Bearer \xe4"],
)
async def test_without_the_key_nothing_is_told(guarded: httpx.AsyncClient, authorization: str | None) -> None:
    headers = {b"Authorization": authorization.encode("latin-1")} if authorization else {}
    for path in ("/api/v1/workers", "/metrics", "/api/v1/nothing"):
        answer = await guarded.get(path, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "API key" in answer.json()["error"]
    assert (await guarded.get("/health")).status_code == 200


async def test_with_the_key_everything_is_told(guarded: httpx.AsyncClient) -> None:
    for scheme in ("Bearer", "bearer"):
        answer = await guarded.get("/api/v1/workers", headers={"Authorization": f"{scheme} {KEY}"})
        assert answer.status_code == 200


async def test_a_stranger_is_refused_before_the_body_is_read(guarded: httpx.AsyncClient) -> None:
    async def never_ends() -> AsyncIterator[bytes]:
        yield b"x"
        raise AssertionError("the body was read")

    answer = await guarded.post("/api/v1/document/ingest-document", content=never_ends())
    assert answer.status_code == 401


async def test_a_trusted_proxy_names_the_user() -> None:
    async with running_client(auth_trust_proxy_headers=True) as client:
        assert (await client.get("/api/v1/workers")).status_code == 401
        for header in ("X-Auth-Request-User", "X-Forwarded-User"):
            assert (await client.get("/api/v1/workers", headers={header: "ada"})).status_code == 200


async def test_an_untrusted_proxy_is_not_believed(guarded: httpx.AsyncClient) -> None:
    answer = await guarded.get("/api/v1/workers", headers={"X-Forwarded-User": "ada"})
    assert answer.status_code == 401


def test_production_without_authentication_does_not_start() -> None:
    with pytest.raises(InvalidSettings, match="PRODUCTION_MODE"):
        create_app(load_settings(production_mode=True))


async def test_only_trusted_hosts_are_answered() -> None:
    async with running_client(trusted_hosts=("localhost", "*.example.org")) as client:
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/health", headers={"Host": "a.example.org:8000"})).status_code == 200
        for host in ("evil.org", "example.org.evil.org", ""):
            answer = await client.get("/health", headers={"Host": host})
            assert answer.status_code == 403
            assert "does not answer to the name" in answer.json()["error"]


async def test_pages_of_allowed_origins_may_call_and_others_not() -> None:
    async with running_client(allowed_origins=("https://ui.example.org",), api_key_enabled=True, api_key=KEY) as client:
        asking = {"Origin": "https://ui.example.org", "Access-Control-Request-Method": "POST"}
        allowed = await client.options("/api/v1/batch/", headers=asking)
        assert allowed.headers["access-control-allow-origin"] == "https://ui.example.org"
        refused = await client.options("/api/v1/batch/", headers=asking | {"Origin": "https://evil.org"})
        assert "access-control-allow-origin" not in refused.headers


async def test_uploads_beyond_the_rate_are_refused_with_a_time_to_come_back() -> None:
    async with running_client(rate_limit_ingest="2/hour") as client:
        statuses = [(await client.post("/api/v1/document/upload")).status_code for _ in range(3)]
        assert statuses[2] == 429
        assert 429 not in statuses[:2]
        answer = await client.post("/api/v1/document/ingest-document")
        assert 1700 < int(answer.headers["retry-after"]) <= 1801
        assert (await client.get("/api/v1/workers")).status_code == 200


def test_an_allowance_is_per_client_and_refills_steadily() -> None:
    now = 0.0
    limit = RateLimit("6/minute", clock=lambda: now)
    for _ in range(6):
        limit.take("a")
    with pytest.raises(RateLimitedError) as refused:
        limit.take("a")
    assert refused.value.retry_after == 10
    limit.take("b")
    now = 10.0
    limit.take("a")
    with pytest.raises(RateLimitedError):
        limit.take("a")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidInputError("field", "is wrong"), 400),
        (NotFoundError("batch", 7), 404),
        (ConflictError("no"), 409),
        (ConfigurationError("A", "b", "c"), 501),
        (OverflowError(), 400),
        (FetchFailedError("http://elsewhere", "no answer"), 502),
        (ConnectionRefusedError(), 503),
        (RuntimeError(), 500),
    ],
)
def test_errors_have_their_status(error: Exception, status: int) -> None:
    assert status_of(error) == status


def test_only_trouble_of_the_server_is_a_server_error() -> None:
    server_errors = {kind.__name__ for kind, status in STATUSES.items() if status >= 500}
    assert "InvalidInputError" not in server_errors
    assert {"StoreUnavailableError", "NotInitializedError", "IngesterError"} <= server_errors


async def test_a_bug_is_answered_in_json_without_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async with running_app() as app:

        @app.get("/bug")
        async def bug() -> None:
            raise ZeroDivisionError("secret")

        async with client_of(app) as client:
            answer = await client.get("/bug")
    assert answer.status_code == 500
    assert answer.json() == {"error": "an error of the server; its log tells more"}
    assert answer.headers["x-request-id"]
    assert "ZeroDivisionError" in caplog.text


async def test_metrics_tell_how_much_memory_workers_on_this_machine_hold(client: httpx.AsyncClient) -> None:
    here = socket.gethostname()
    await check_in("mine", hostname=here, pid=os.getpid())
    await check_in("elsewhere", hostname=f"not-{here}", pid=os.getpid())
    text = (await client.get("/metrics")).text
    found = re.search(r'soliplex_worker_resident_bytes\{part="worker",worker="mine"\} (\S+)', text)
    assert found is not None
    assert float(found[1]) > 1 << 20
    assert 'part="processes",worker="mine"' in text
    assert 'part="worker",worker="elsewhere"' not in text


async def test_metrics_tell_of_requests_and_of_what_is_held(client: httpx.AsyncClient) -> None:
    await client.get("/api/v1/locks")
    text = (await client.get("/metrics")).text
    assert 'soliplex_http_requests_total{method="GET",route="/api/v1/locks",status="200"}' in text
    for gauge in ("workers", "running_steps", "unfinished_groups", "unfinished_runs", "resource_locks"):
        assert f"\nsoliplex_{gauge} 0.0" in text


async def test_a_server_has_a_worker_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_app(with_worker=True) as app, client_of(app) as client:
        (worker,) = (await client.get("/api/v1/workers")).json()
        assert worker["id"] == app.state.worker.id
        assert worker["slots"] > 0
