"""Named keys, sessions of browsers, and the audit log, as clients meet them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from soliplex.ingester.lib.access import create_key
from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.lib.enums import Scope
from soliplex.ingester.server import create_app
from soliplex.ingester.server.access import SCOPES, known_as, routes_of
from tests.support.http import client_of, running_app

MASTER = "correct horse battery staple"


def bearing(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
async def app() -> AsyncIterator[FastAPI]:
    async with running_app(api_key_enabled=True, api_key=MASTER) as app:
        yield app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as client:
        yield client


def test_every_method_of_every_route_has_a_scope_or_is_open_on_purpose() -> None:
    routes = list(routes_of(create_app(load_settings(), with_worker=False)))
    assert [each for each in routes if each.scope is None and each.open_because is None] == []
    assert SCOPES.keys() <= {known_as(each.method, each.path) for each in routes}


@pytest.mark.parametrize("scope", Scope)
async def test_a_key_is_let_in_where_its_scope_allows_and_nowhere_else(
    app: FastAPI, client: httpx.AsyncClient, scope: Scope
) -> None:
    made = await create_key("someone", [scope], created_by="test")
    allowed = {Scope.OPERATE: {Scope.OPERATE, Scope.READ}, Scope.ADMIN: set(Scope)}.get(scope, {scope})
    refused = 0
    for each in routes_of(app):
        if each.scope in allowed or each.open_because:
            continue
        address = re.sub(r"\{\w+:int\}", "1", each.path)
        answer = await client.request(each.method, address, headers=bearing(made.key))
        assert answer.status_code == 403, f"{each.method} {each.path}"
        if each.method != "HEAD":
            assert answer.json()["detail"]["missing_scope"] == each.scope
            assert f"'{each.scope}'" in answer.json()["error"]
        refused += 1
    assert (refused == 0) is (scope is Scope.ADMIN)
    reads = (await client.get("/api/v1/workers", headers=bearing(made.key))).status_code
    assert reads == (403 if scope is Scope.INGEST else 200)


async def test_a_key_is_made_shown_once_and_revoked(client: httpx.AsyncClient) -> None:
    admin = bearing(MASTER)
    new = {"name": "ci", "scopes": ["read"]}
    made = await client.post("/api/v1/keys", json=new, headers=admin)
    assert made.status_code == 201
    key = made.json()["key"]
    assert (await client.post("/api/v1/keys", json=new, headers=admin)).status_code == 409
    listed = await client.get("/api/v1/keys", headers=admin)
    assert [each["name"] for each in listed.json()] == ["ci"]
    assert key not in listed.text
    assert (await client.get("/api/v1/workers", headers=bearing(key))).status_code == 200
    assert (await client.delete("/api/v1/keys/ci", headers=admin)).status_code == 200
    assert (await client.get("/api/v1/workers", headers=bearing(key))).status_code == 401
    log = (await client.get("/api/v1/audit", headers=admin)).json()
    acts = [(each["action"], each["actor"], each["outcome"]) for each in log]
    assert acts == [
        ("DELETE /keys/{name}", "api-key", "done"),
        ("POST /keys", "api-key", "answered 409"),
        ("POST /keys", "api-key", "done"),
    ]
    assert key not in str(log)


async def test_a_browser_logs_in_with_a_key_and_out_again(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/v1/session")).json() == {
        "needs_key": True,
        "name": None,
        "scopes": [],
        "expires_at": None,
    }
    assert (await client.post("/api/v1/session", json={"key": "wrong"})).status_code == 401
    made = await create_key("ui", [Scope.OPERATE], created_by="test")
    begun = await client.post("/api/v1/session", json={"key": made.key})
    cookie = begun.headers["set-cookie"]
    assert begun.json()["scopes"] == ["read", "operate"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    assert made.key not in cookie
    assert (await client.get("/api/v1/session")).json()["name"] == "ui"
    assert (await client.get("/api/v1/workers")).status_code == 200
    # Of a page of another site, the browser's cookie opens nothing that changes something.
    elsewhere = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert (await client.post("/api/v1/webhooks/redeliver", headers=elsewhere)).status_code == 403
    assert (await client.post("/api/v1/webhooks/redeliver")).status_code == 200
    token = client.cookies["si_session"]
    assert (await client.delete("/api/v1/session")).status_code == 204
    client.cookies.set("si_session", token)
    assert (await client.get("/api/v1/workers")).status_code == 401


async def test_what_deletes_only_where_a_field_says_so_needs_operate_then(client: httpx.AsyncClient) -> None:
    made = await create_key("sync", [Scope.INGEST], created_by="test")
    sent = {"source": "files", "hashes": "{}"}
    asked = await client.post("/api/v1/source-status", data=sent, headers=bearing(made.key))
    refused = await client.post(
        "/api/v1/source-status", data=sent | {"delete_stale": "true"}, headers=bearing(made.key)
    )
    done = await client.post("/api/v1/source-status", data=sent | {"delete_stale": "true"}, headers=bearing(MASTER))
    assert [asked.status_code, refused.status_code, done.status_code] == [200, 403, 200]
    (entry,) = (await client.get("/api/v1/audit", headers=bearing(MASTER))).json()
    assert (entry["action"], entry["outcome"]) == ("POST /source-status", "done")
    assert entry["details"]["source"] == "files"


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        (
            "flows/schedules",
            {"name": "nightly", "slug": "batch", "cron": "0 6 * * *"},
            {"name": "nightly", "slug": "batch"},
        ),
        (
            "flows/",
            {"definition": {"title": "Two", "steps": [{"name": "a", "type": "@a", "command": "b"}]}},
            {"slug": "two"},
        ),
        ("goals/", {"goal": "search for lamps"}, {"goal": "search for lamps"}),
    ],
)
async def test_the_audit_log_tells_what_a_body_names(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], named: dict[str, str]
) -> None:
    answer = await client.post(f"/api/v1/{path}", json=body, headers=bearing(MASTER))
    assert answer.status_code == 201, answer.text
    (entry,) = (await client.get("/api/v1/audit", headers=bearing(MASTER))).json()
    assert entry["details"].items() >= named.items()
