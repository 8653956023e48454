"""Bad input, route by route: always a 4xx that says what is wrong and names the field, and nothing half written.

What each route takes is read from the OpenAPI document, so a new route is driven like the others without a word here.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
from fastapi import FastAPI

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import Database, metadata
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.server.bodies import LARGEST_BODY, LARGEST_JSON
from soliplex.ingester.server.forms import LARGEST_FIELD
from tests.support.engine import rows_of, scalar
from tests.support.http import client_of, running_app
from tests.support.operations_of_the_api import Operation, Sent, Value, operations_of
from tests.support.serving import Server, serving

A = "/api/v1"
NUL = "a\x00b"
HUGE = 3 << 20
LONGEST_URL = 50_000
PATIENCE = 100
IN_A_BODY_TOO = (f"{A}/document/by-uri", f"{A}/workflow/retry")
"""What these take may stand in a body as well as in the query, of which alone the document tells."""

TAKES_JSON_TOO = f"{A}/document/rollback"


@dataclass(frozen=True, slots=True)
class World:
    """A server without a worker, a batch of one document, and a run of it that waits."""

    app: FastAPI
    client: httpx.AsyncClient
    folder: Path
    values: dict[str, Any]

    def operations(self) -> Iterator[Operation]:
        return operations_of(self.app)

    def right(self, operation: Operation) -> dict[str, Any]:
        """Values that are as they should be, for all that is required."""
        return {each.name: self.values[each.name] for each in operation.values if each.is_required}

    async def send(self, sent: Sent) -> httpx.Response:
        async with asyncio.timeout(PATIENCE):
            return await self.client.request(sent.method, sent.url, content=sent.content, headers=sent.headers)

    async def contents(self) -> Mapping[str, object]:
        """All rows there are, counted, but for the refusals in the audit log; and all files."""
        counts = {name: await scalar(f'SELECT count(*) FROM "{name}"') for name in sorted(metadata.tables)}
        counts["auditentry"] = await scalar("SELECT count(*) FROM auditentry WHERE outcome NOT LIKE 'answered 4__'")
        return {**counts, "files": sorted(str(path) for path in self.folder.rglob("*") if path.is_file())}


@pytest.fixture
async def world(
    database: type[Database], database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    folder = tmp_path / "data"
    monkeypatch.setenv("DOC_DB_URL", database_url)
    monkeypatch.setenv("USER_PARAM_DIR", str(folder / "user_params"))
    get_settings.cache_clear()
    use_registry(None)
    async with running_app(doc_db_url=database_url) as app, client_of(app) as client:
        batch = await client.post(f"{A}/batch/", data={"source": "files", "name": "Q4"})
        fields = {"source_uri": "/a.txt", "source": "files", "batch_id": str(batch.json()["batch_id"])}
        sent = await client.post(f"{A}/document/upload", data=fields, files={"file": ("a.txt", b"paper")})
        form = {"batch_id": fields["batch_id"], "workflow_definition_id": "test_wf", "param_id": "test_base"}
        started = await client.post(f"{A}/batch/start-workflows", data=form)
        assert started.status_code == 201, started.text
        yield World(app, client, folder, _values(sent.json()["document_hash"]))
    use_registry(None)


def _values(doc_hash: str) -> dict[str, Any]:
    return {
        **dict.fromkeys(("batch_id", "run_group_id", "run_id", "step_id", "payload_id", "message_id"), 1),
        **dict.fromkeys(("documentid", "segmentid"), 1),
        "jobid": "01a1eeecfdd74c6ae2702d60884633dc",
        "slug": "test_wf",
        "source": "files",
        "name": "Q4",
        "source_uri": "/b.txt",
        "doc_hash": doc_hash,
        "doc_id": doc_hash,
        "hashes": "{}",
        "source_id": "git:docs",
        "commit_sha": "abc",
        "pattern": "a",
        "status": "FAILED",
        "workflow_id": "test_wf",
        "set_id": "test_base",
        "target": "my_db",
        "db": "my_db",
        "yaml_content": "id: mine\nconfig: {}",
        "artifact_type": "chunks",
        "uri": "/a.txt",
        "uris": "https://example.org/a.txt",
        "q": "paper",
        "kind": "text/plain",
        "chunk_id": "0-1",
        "key": "order-17",
        "version": 1,
        "number": 1,
    }


def complaints(operation: object, answer: httpx.Response, field: str | None = None) -> Iterator[str]:
    """What is wrong with the answer to a bad request."""
    told = f"{operation} [{field}]: {answer.status_code} {answer.text[:200]}"
    if str(operation).endswith("/param-sets/check") and answer.status_code == 200 and not answer.json()["can_be_saved"]:
        return  # what is wrong with the text is the answer
    if not 400 <= answer.status_code < 500 or "Traceback" in answer.text:
        yield told
        return
    error = answer.json().get("error", "")
    # What has a right form and does not exist is named by what it is, and not by the field it stood in.
    is_named = field is None or field.lower().replace("_", "-") in error.lower().replace("_", "-")
    if not error or not (is_named or answer.status_code == 404):
        yield told


def wrong_kinds(value: Value) -> Iterable[str]:
    """Texts that are no such value."""
    match value.type:
        case "integer":
            least = value.limit("minimum") or 0
            return ("x", "1.5", "9" * 30, "1 OR 1=1", "NaN", NUL, *((str(least - 1),) if least >= 0 else ()))
        case "boolean":
            return ("perhaps", "2", NUL)
        case "enum":
            return ("nothing", "'; DROP TABLE runstep; --", NUL)
        case _:
            return (NUL,)


async def test_a_value_of_the_wrong_kind_is_refused_by_its_name(world: World) -> None:
    before, wrong = await world.contents(), list[str]()
    for operation in world.operations():
        for value in operation.values:
            for text in wrong_kinds(value):
                given = world.right(operation) | {value.name: text}
                if value.place == "header" and text == NUL:
                    continue  # no client can send it
                wrong += complaints(operation, await world.send(operation.request(given)), value.name)
    assert wrong == []
    assert await world.contents() == before


async def test_a_value_that_is_missing_is_named(world: World) -> None:
    before, wrong = await world.contents(), list[str]()
    for operation in world.operations():
        for value in operation.values:
            if value.is_required and value.place != "path":
                given = {name: text for name, text in world.right(operation).items() if name != value.name}
                wrong += complaints(operation, await world.send(operation.request(given)), value.name)
    assert wrong == []
    assert await world.contents() == before


async def test_json_in_place_of_a_form_is_told_as_that_and_not_as_fields_that_are_missing(world: World) -> None:
    before, wrong = await world.contents(), list[str]()
    for operation in world.operations():
        given = world.right(operation)
        if not any(each.place == "form" and each.is_required for each in operation.values):
            continue
        if operation.path == TAKES_JSON_TOO:
            continue
        sent = operation.request(given)
        fields = json.dumps({each.name: given[each.name] for each in operation.values if each.name in given})
        as_json = Sent(sent.method, sent.url, fields, {"content-type": "application/json"})
        wrong += complaints(operation, await world.send(as_json), "content-type")
    assert wrong == []
    assert await world.contents() == before


async def test_a_value_that_is_given_twice_is_refused_by_its_name(world: World) -> None:
    before, wrong = await world.contents(), list[str]()
    for operation in world.operations():
        for value in operation.values:
            if value.place in {"query", "form"} and value.kinds[0].get("type") != "array":
                text = str(world.values.get(value.name, "1"))
                given = world.right(operation) | {value.name: text}
                twice = operation.request(given, (value.name, text))
                if value.place == "query" and operation.takes_form:
                    twice = Sent(twice.method, f"{twice.url}&{value.name}={text}", twice.content, twice.headers)
                wrong += complaints(operation, await world.send(twice), value.name)
    assert wrong == []
    assert await world.contents() == before


async def test_a_text_that_is_too_long_is_refused(world: World) -> None:
    before, wrong = await world.contents(), list[str]()
    for operation in world.operations():
        for value in operation.values:
            if value.type != "string" or value.place == "header":
                continue
            longest = value.limit("maxLength")
            size = longest + 1 if longest else (HUGE if value.place == "form" else LONGEST_URL)
            answer = await world.send(operation.request(world.right(operation) | {value.name: "x" * size}))
            # A form is cut off before its fields are told apart.
            wrong += complaints(operation, answer, None if size >= 1 << 20 else value.name)
    assert wrong == []
    assert await world.contents() == before


ODD_TEXTS = (
    *("x" * 255, "x" * 256, "x" * 2048, "\u00e4" * 200, "\U0001f600" * 100),
    *("two\nlines", "\x1b[31mred", "\x7f", "\u202eabc", "\ufeff", "\ufffe", " ", ".hidden", "...", "-rf", "a b"),
    *("%00", "%", "{}", "[]", "null", "\\", "'", '"', "$(id)", "con.txt:stream"),
)
"""Texts that a file system, a database or a terminal takes in a way of its own."""


async def test_no_text_is_answered_as_a_fault_of_the_server(world: World) -> None:
    wrong: list[str] = []
    for operation in world.operations():
        for value in operation.values:
            if value.type != "string" or value.place == "header" or operation.path.endswith("/events"):
                continue
            for text in ODD_TEXTS:
                sent = operation.request(world.right(operation) | {value.name: text})
                answer = await world.send(sent)
                if answer.status_code >= 500 or "Traceback" in answer.text:
                    wrong.append(f"{operation} [{value.name}={text[:20]!r}]: {answer.status_code} {answer.text[:200]}")
    assert wrong == []


async def test_a_field_that_nobody_knows_is_refused_by_its_name(world: World) -> None:
    before, wrong = await world.contents(), list[str]()
    for operation in world.operations():
        if operation.method == "GET":
            continue
        unknown = operation.request(world.right(operation), ("no_such_field", "1"))
        wrong += complaints(operation, await world.send(unknown), "no_such_field")
    assert wrong == []
    assert await world.contents() == before


@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_no_field_of_a_form_is_passed_over_where_it_stands_in_the_address(world: World) -> None:
    """Either it counts there as well, and must be the same in both places, or it is refused there."""
    wrong = list[str]()
    for operation in world.operations():
        for value in operation.values:
            if value.place == "form":
                in_form, elsewhere = ("true", "false") if value.type == "boolean" else ("1", "2")
                sent = operation.request(world.right(operation) | {value.name: in_form})
                moved = replace(sent, url=f"{sent.url}&{value.name}={elsewhere}")
                wrong += complaints(operation, await world.send(moved), value.name)
    assert wrong == []


@pytest.mark.parametrize("kind", ["urlencoded", "multipart"])
@pytest.mark.parametrize(
    ("path", "misspelt", "meant"),
    [
        ("batch/start-workflows", "batch_ids", "batch_id"),
        ("document/ingest-document", "source_url", "source_uri"),
        ("source-status", "delete_stal", "delete_stale"),
        ("workflow/retry", "hardd", "hard"),
        ("document/rollback", "versions", "version"),
    ],
)
@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_a_misspelt_field_is_told_its_right_name(
    world: World, path: str, misspelt: str, meant: str, kind: str
) -> None:
    form = {
        "source": "files",
        "source_uri": "/b",
        "uri": "/a.txt",
        "hashes": "{}",
        "batch_id": "1",
        "run_group_id": "1",
    }
    known = next(each for each in world.operations() if each.path == f"{A}/{path}")
    sent = {name: text for name, text in form.items() if name in {value.name for value in known.values}}
    sent[misspelt] = "1"
    parts = {name: (None, text) for name, text in sent.items()}
    address = f"{A}/{path}"
    posting = world.client.post(address, data=sent) if kind == "urlencoded" else world.client.post(address, files=parts)
    answer = await posting
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"] == f"{misspelt}: there is no such field; did you mean {meant!r}?"


BAD_NAMES = {
    "x" * 256: "has 256 bytes in UTF-8; the name of a database has at most 255",
    "\u00e4" * 128: "has 256 bytes in UTF-8; the name of a database has at most 255",
    "a\nb": "must not hold control characters",
    ".hidden": "must not begin with a dot",
}


@pytest.mark.parametrize("route", ["lancedb/info", "lancedb/documents", "lancedb/vacuum", "search"])
@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_a_name_that_no_database_can_have_is_refused(world: World, route: str, name: str) -> None:
    answer = await world.client.get(f"{A}/{route}", params={"db": name, "q": "x"})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"].startswith(f"db: {BAD_NAMES[name]}")


@pytest.mark.parametrize("name", ["a/b", "../x", *BAD_NAMES])
@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_a_parameter_set_that_stores_nowhere_is_refused_when_it_is_saved(world: World, name: str) -> None:
    before = await world.contents()
    text = f"id: mine\nconfig:\n  store:\n    data_dir: {json.dumps(name)}\n"
    answer = await world.client.post(f"{A}/workflow/param-sets", data={"yaml_content": text})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"].startswith("store.data_dir: must" if name not in BAD_NAMES else "store.data_dir: ")
    assert await world.contents() == before


@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_a_parameter_set_that_stores_nowhere_is_refused_when_it_is_used(world: World) -> None:
    folder = get_settings().user_param_dir
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.yaml").write_text(f"id: mine\nconfig:\n  store: {{data_dir: {'x' * 256}}}\n")
    use_registry(None)  # read the files again
    form = {"batch_id": "1", "workflow_definition_id": "batch", "param_id": "mine"}
    answer = await world.client.post(f"{A}/batch/start-workflows", data=form)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"].startswith("store.data_dir: has 256 bytes")


@pytest.mark.parametrize(
    ("path", "possible"),
    [("batch/", "GET, POST"), ("sync-state/git:docs", "GET, PUT, DELETE"), ("document/by-uri", "DELETE")],
)
@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_a_wrong_method_is_told_what_is_possible(world: World, path: str, possible: str) -> None:
    answer = await world.client.patch(f"{A}/{path}")
    assert (answer.status_code, answer.headers["allow"]) == (405, possible)
    assert answer.json()["error"].endswith(f"{possible} is")


@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_what_stands_in_query_and_body_must_be_the_same(world: World) -> None:
    both = f"{A}/workflow/retry?run_group_id=1"
    assert (await world.client.post(both, data={"run_group_id": "1"})).status_code == 201
    answer = await world.client.post(both, data={"run_group_id": "2"})
    assert (answer.status_code, answer.json()["detail"]) == (400, {"field": "run_group_id"})


BROKEN: dict[str, tuple[str, bytes]] = {
    "no form": ("text/plain", b"source=files"),
    "no boundary": ("multipart/form-data", b"--x\r\n\r\n"),
    "another boundary": ("multipart/form-data; boundary=x", b'--y\r\nContent-Disposition: form-data; name="a"\r\n\r\n'),
    "cut off": ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nfi'),
    "no name": ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data\r\n\r\nx\r\n--x--\r\n"),
    "no headers": ("multipart/form-data; boundary=x", b"--x\r\n\r\nx\r\n--x--\r\n"),
    "too many fields": ("application/x-www-form-urlencoded", b"&".join(b"f%d=1" % n for n in range(5000))),
    "nothing": ("application/x-www-form-urlencoded", b""),
    "JSON": ("application/json", b"{}"),
    "an array": ("application/json", b"[1]"),
    "a text": ("application/json", b'"x"'),
    "null": ("application/json", b"null"),
    "no JSON": ("application/json", b'{"a": '),
    "not UTF-8 JSON": ("application/json", b'{"uri": "\xff"}'),
    "deep JSON": ("application/json", b"[" * 200_000),
    "long number": ("application/json", b'{"run_group_id": ' + b"9" * 6000 + b"}"),
}


async def test_a_form_that_is_none_is_refused(world: World) -> None:
    before, wrong = await world.contents(), list[str]()
    for operation in world.operations():
        needs_form = any(value.place == "form" and value.is_required for value in operation.values)
        if not needs_form and operation.path not in IN_A_BODY_TOO:
            continue
        for what, (kind, body) in BROKEN.items():
            path = {each.name: world.values[each.name] for each in operation.values if each.place == "path"}
            sent = operation.request(path)
            bad = Sent(sent.method, sent.url, body, {"content-type": kind})
            wrong += complaints(f"{operation}, {what}", await world.send(bad))
    assert wrong == []
    assert await world.contents() == before


ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "application/x-www-form-urlencoded": (b"", b"&f=" + b"x" * 500_000),
    "multipart/form-data": (b'--x\r\nContent-Disposition: form-data; name="a"; filename="b"\r\n\r\n', b"x" * 500_000),
    "application/json": (b'{"a": "', b"x" * 500_000),
}
"""How a body begins, and how it goes on and on."""


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("path", ["batch/", "batch/start-workflows", "workflow/", "workflow/retry"])
@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_a_body_without_end_is_refused_before_it_fills_the_memory(world: World, path: str, kind: str) -> None:
    before = await world.contents()

    async def body() -> AsyncIterator[bytes]:
        start, block = ENDLESS[kind]
        yield start
        for _ in range(LARGEST_BODY // len(block) + 1):
            yield block

    answer = await world.client.post(f"{A}/{path}", content=body(), headers={"content-type": f"{kind}; boundary=x"})
    if kind == "application/json" and path != "workflow/retry":
        assert answer.status_code == 422, answer.text  # what is no form is not read
    else:
        largest = LARGEST_JSON if kind == "application/json" else LARGEST_BODY
        assert (answer.status_code, answer.json()["error"]) == (413, f"body: is larger than {largest} bytes")
    assert await world.contents() == before


@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_fields_that_are_too_much_together_are_refused(world: World) -> None:
    before = await world.contents()
    fields = {f"f{number}": (None, "x" * LARGEST_FIELD) for number in range(4)}
    answer = await world.client.post(f"{A}/document/upload", files=fields)
    assert (answer.status_code, answer.json()["detail"]) == (413, {"limit": LARGEST_FIELD})
    assert answer.json()["error"] == f"the form is larger than {3 * LARGEST_FIELD} bytes"
    assert await world.contents() == before


@pytest.mark.parametrize("text", ["[]", '"x"', "1", "null", "true", "{", "", "{'a': 1}", '{"a": NaN}', "[" * 100_000])
@pytest.mark.parametrize(
    ("path", "method", "field"),
    [("document/upload", "POST", "doc_meta"), ("source-status", "POST", "hashes"), ("sync-state/x", "PUT", "metadata")],
)
@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_json_that_is_no_object_is_refused(world: World, path: str, method: str, field: str, text: str) -> None:
    before = await world.contents()
    form = {"source": "files", "source_uri": "/b", "batch_id": "1", "commit_sha": "x", "hashes": "{}", field: text}
    if not text and field != "hashes":
        return  # left empty, it is not given, and the default is an object
    route = f"{A}/{path}".replace("sync-state/x", "sync-state/{source_id}")
    known = {
        value.name
        for each in world.operations()
        if (each.path, each.method) == (route, method)
        for value in each.values
    }
    sent = {name: value for name, value in form.items() if name in known}
    answer = await world.client.request(method, f"{A}/{path}", data=sent)
    assert answer.status_code in {400, 422}, answer.text
    assert answer.json()["error"].startswith(f"{field}: ")
    assert await world.contents() == before


TRAVERSALS = ("../secret", "../../etc/passwd", "/etc/passwd", "..", ".", "a/../../b", "..\\..\\x", "%2e%2e%2fx", "~/x")


@pytest.mark.parametrize("route", ["info", "documents", "vacuum"])
async def test_a_database_is_never_looked_for_outside_its_folder(world: World, route: str) -> None:
    before = await world.contents()
    for name in TRAVERSALS:
        answer = await world.client.get(f"{A}/lancedb/{route}", params={"db": name})
        assert answer.status_code in {400, 404}, (name, answer.text)
        assert answer.json()["error"]
    assert await world.contents() == before


@pytest.mark.parametrize(
    "text",
    ["1=1", "id = 1 OR 1=1", "title = 'x'; DROP TABLE documents", "id IN (SELECT 1)", "title LIKE '%", "--", "("],
)
async def test_a_filter_is_no_sql(world: World, filled: Path, text: str) -> None:
    shutil.copytree(filled, Path(str(get_settings().lancedb_dir)) / "my_db")
    answer = await world.client.get(f"{A}/lancedb/documents", params={"db": "my_db", "filter": text})
    assert (answer.status_code, answer.json()["detail"]) == (400, {"field": "filter"}), answer.text


ADDRESSES = (
    *(
        "file:///etc/passwd",
        "file://localhost/etc/passwd",
        "file:/etc/passwd",
        "file:///etc/../etc/passwd",
        "/etc/passwd",
    ),
    *("http://127.0.0.1/", "http://localhost:8000/", "http://[::1]/", "http://169.254.169.254/latest/meta-data/"),
    *("http://0x7f000001/", "http://2130706433/", "http://10.0.0.1/", "https://user:pass@127.0.0.1/", "http://"),
    *(
        "ftp://example.org/x",
        "gopher://x",
        "s3://another/key",
        "data:text/plain,x",
        "javascript:alert(1)",
        "::",
        "http://[",
        "x" * 2000,
    ),
)


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_nothing_is_fetched_from_where_it_must_not(world: World, address: str) -> None:
    before = await world.contents()
    form = {"source_uri": "/b", "source": "files", "batch_id": "1", "input_uri": address}
    answer = await world.client.post(f"{A}/document/ingest-document", data=form)
    assert (answer.status_code, answer.json()["detail"]) == (400, {"field": "input_uri"}), answer.text
    assert answer.json()["error"].startswith("input_uri: ")
    assert "root:" not in answer.text
    assert await world.contents() == before


@pytest.mark.parametrize(
    "name", [*TRAVERSALS, "'; DROP TABLE document; --", "<script>", "a\r\nX-Injected: 1", "%s%n", "💥"]
)
async def test_a_hostile_name_is_only_a_name(world: World, name: str) -> None:
    """Documents are stored by their hash: what they are called, where, decides nothing."""
    outside = {path for path in world.folder.parent.iterdir() if path != world.folder}
    fields = {"source_uri": name, "source": "files", "batch_id": "1"}
    answer = await world.client.post(
        f"{A}/document/upload", data=fields, files={"file": (name.replace("\r\n", ""), name.encode())}
    )
    assert answer.status_code == 201, answer.text
    assert answer.json()["document_uri"] == name
    raw = await world.client.get(f"{A}/document/{answer.json()['document_hash']}/raw")
    assert (raw.content, "x-injected" in raw.headers) == (name.encode(), False)
    assert await rows_of("SELECT uri FROM documenturi ORDER BY id") == [("/a.txt",), (name,)]
    assert {path for path in world.folder.parent.iterdir() if path != world.folder} - outside <= {
        world.folder.parent / "documents.db-shm",
        world.folder.parent / "documents.db-wal",
    }


type Breaking = Callable[[bytes], tuple[bytes, bytes]]


def _lengths(length: str) -> Breaking:
    return lambda body: (f"Content-Length: {length}".encode(), body)


WRONG_LENGTHS: dict[str, Breaking] = {
    "longer than the body": lambda body: (b"Content-Length: %d" % (len(body) + 1000), body),
    "shorter than the body": lambda body: (b"Content-Length: %d" % (len(body) - 20), body),
    "no number": _lengths("many"),
    "negative": _lengths("-5"),
    "two of them": lambda body: (b"Content-Length: 5\r\nContent-Length: %d" % len(body), body),
    "a chunk without an end": lambda body: (b"Transfer-Encoding: chunked", b"%x\r\n%s\r\n" % (len(body), body)),
    "a chunk of no size": lambda body: (b"Transfer-Encoding: chunked", b"zz\r\n%s\r\n" % body),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("serving"), "--no-worker") as server:
        yield server


@pytest.mark.parametrize("what", WRONG_LENGTHS)
def test_a_wrong_content_length_writes_nothing(server: Server, what: str) -> None:
    """Over a bare connection: no client would send such a thing."""
    with server.client() as client:
        client.post(f"{A}/batch/", data={"source": "files", "name": "Q4"}).raise_for_status()
        body = (
            b'--x\r\nContent-Disposition: form-data; name="source_uri"\r\n\r\n/a\r\n'
            b'--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nfiles\r\n'
            b'--x\r\nContent-Disposition: form-data; name="batch_id"\r\n\r\n1\r\n'
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\npaper\r\n--x--\r\n'
        )
        length, sent = WRONG_LENGTHS[what](body)
        answer = _sent_bare(server, b"Content-Type: multipart/form-data; boundary=x\r\n" + length, sent)
        assert answer in {b"", b"400"}
        assert client.get(f"{A}/document/?{urlencode({'source': 'files'})}").json() == []


def _sent_bare(server: Server, headers: bytes, body: bytes) -> bytes:
    """Send what is given and nothing more; gives the status of the answer, if there was one."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE) as connection:
        connection.sendall(
            b"POST /api/v1/document/upload HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n%s" % (headers, body)
        )
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while block := connection.recv(65536):
            answer += block
    return answer.partition(b" ")[2][:3]
