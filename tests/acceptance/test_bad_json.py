"""JSON bodies that are wrong, large or odd, for every route that takes one: refused in words, or taken as they are.

Which routes take JSON, and which fields, is read from the OpenAPI document. The application is watched: none of these
bodies may hold its event loop.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.server.bodies import LARGEST_JSON
from tests.support.engine import registry_in_use
from tests.support.http import client_of, running_app

A = "/api/v1"
JSON = {"Content-Type": "application/json"}
AS_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
FLOW = {"title": "Odd", "steps": [{"name": "a", "type": "@odd", "command": "look"}]}
RIGHT: Mapping[str, Any] = {
    "name": "ada",
    "scopes": ["read"],
    "key": "not a key",
    "definition": FLOW,
    "slug": "odd",
    "cron": "0 6 * * 1",
    "worker": "box",
    "types": ["@odd"],
    "lease": "none",
    "id": 1,
    "message": "it burns",
    "status": "CANCELED",
    "goal": "search for ports",
}
"""A value for each field that some route needs."""
DEEP = "[" * 2_000 + "]" * 2_000
ODD = {
    "not a number": "NaN",
    "infinity": "1e999",
    "more than 64 bits": "9223372036854775808",
    "many digits": "9" * 4_000,
    "too many digits": "9" * 5_000,
    "deep": DEEP,
    "NUL": '"a\\u0000b"',
    "half a pair": '"\\ud800"',
    "a half in a key": '{"\\ud800": 1}',
    "null": "null",
    "true": "true",
    "a fraction": "1.5",
    "an object": '{"a": 1}',
    "a long list": json.dumps(["read"] * 50_000),
    "a long text": json.dumps("x" * 500_000),
}


@dataclass(frozen=True, slots=True)
class Route:
    """An operation that takes a JSON object, and the fields of it."""

    method: str
    path: str
    required: tuple[str, ...]
    fields: tuple[str, ...]

    def right(self) -> dict[str, Any]:
        return {name: RIGHT[name] for name in self.required}


def routes_of(app: FastAPI) -> Iterator[Route]:
    document = app.openapi()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            if "$ref" in schema:
                fields = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
                yield Route(method, path, tuple(fields.get("required", ())), tuple(fields["properties"]))


@pytest.fixture
async def app(database: type[Database], database_url: str) -> AsyncIterator[FastAPI]:
    del database
    with registry_in_use():
        async with running_app(doc_db_url=database_url) as app:
            yield app
    use_registry(None)


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app, headers=JSON, timeout=300) as client:
        yield client


def address(route: Route) -> str:
    names = {"slug": "odd", "run_id": "1", "jobid": "none", "name": "ada"}
    path = route.path
    for name, value in names.items():
        path = path.replace(f"{{{name}}}", value)
    return path


async def test_no_value_of_any_field_is_a_fault_of_the_server(app: FastAPI, client: httpx.AsyncClient) -> None:
    await client.post(f"{A}/flows/", json={"definition": FLOW})
    wrong, asked = list[str](), 0
    for route in routes_of(app):
        for field in route.fields:
            for what, text in ODD.items():
                others = json.dumps({name: value for name, value in route.right().items() if name != field})
                body = f'{others[:-1]}{", " if len(others) > 2 else ""}"{field}": {text}}}'
                answer = await client.request(route.method, address(route), content=body)
                asked += 1
                if answer.status_code >= 500 or "Traceback" in answer.text or len(answer.text) > 60_000:
                    wrong.append(
                        f"{route.method} {route.path} {field}: {what}: {answer.status_code} {answer.text[:99]}"
                    )
    assert wrong == []
    assert asked > 500


async def test_fields_that_nobody_knows_are_refused_by_name_however_many(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    for route in routes_of(app):
        many = {f"no_such_{number}": number for number in range(40_000)}
        answer = await client.request(route.method, address(route), content=json.dumps(route.right() | many))
        assert answer.status_code == 400, f"{route}: {answer.text[:200]}"
        assert answer.json()["error"].startswith("no_such_0: there is no such field; "), route
        misspelt = {f"{route.fields[0]}s": 1}
        answer = await client.request(route.method, address(route), content=json.dumps(route.right() | misspelt))
        assert (
            answer.json()["error"] == f"{route.fields[0]}s: there is no such field; did you mean {route.fields[0]!r}?"
        )


@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_a_body_that_is_too_large_or_no_json_is_refused(app: FastAPI, client: httpx.AsyncClient) -> None:
    for route in routes_of(app):
        large = json.dumps(route.right() | {route.fields[0]: "x" * LARGEST_JSON})
        answer = await client.request(route.method, address(route), content=large)
        assert (answer.status_code, answer.json()["error"]) == (413, f"body: is larger than {LARGEST_JSON} bytes")
        for broken in (b"[" * 500_000, b'{"a": "\xff"}', b'{"a": ' + b"9" * 6_000 + b"}"):
            answer = await client.request(route.method, address(route), content=broken)
            assert (answer.status_code, answer.json()["error"][:22]) == (400, "body: must be JSON in ")
        answer = await client.request(route.method, address(route), data={route.fields[0]: "x"}, headers=AS_FORM)
        assert (answer.status_code, answer.json()["error"][:16]) == (400, "body: is a form;")
        for broken in (b"{", b"[]", b"1", b""):
            answer = await client.request(route.method, address(route), content=broken)
            assert answer.status_code == 422, f"{route}: {answer.text}"


TAKEN: tuple[Any, ...] = (
    *(0, -1, 2**63 - 1, -(2**63), 0.1, 1e22, -1e-300, True, "", "9" * 400, "1e5", "null", "\ufeff\u202e\U0001f600"),
    *({"a": [1, {"b": None}]}, [[1]] * 100, {"": 1}, json.loads("[" * 190 + "]" * 190), {"big": "x" * 900_000}),
)


async def test_what_is_taken_for_an_input_or_an_output_comes_back_as_it_was(client: httpx.AsyncClient) -> None:
    saved = await client.post(f"{A}/flows/", json={"definition": FLOW})
    assert saved.status_code == 201, saved.text
    for value in TAKEN:
        started = await client.post(f"{A}/flows/odd/runs", json={"input": value})
        assert started.status_code == 201, started.text
        answer = await client.post(f"{A}/tasks/claim", json={"worker": "w", "types": ["@odd"]})
        assert answer.status_code == 200, answer.text
        claimed = answer.json()
        (task,) = claimed["tasks"]
        assert task["input"] == value or task["input"] == {"input": value}
        done = {"id": task["id"], "lease": claimed["lease"], "output": value}
        completed = await client.post(f"{A}/tasks/complete", json=done)
        assert completed.status_code == 200, completed.text
        run = (await client.get(f"{A}/flows/runs/{started.json()['run_id']}")).json()
        assert (run["status"], run["output"]) == ("completed", {"a": value})
