"""`/api/v1/source-status`, `/batch`, `/document` and `/sync-state`: every route, as clients in the field call it."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.storage import get_artifacts
from tests.support.documents import hash_of
from tests.support.engine import rows_of, scalar
from tests.support.files import pdf
from tests.support.http import running_client

A = "/api/v1"
HELLO = b"hello, world\n"
SAMPLES = Path(__file__).parents[2] / "samples"


async def new_batch(client: httpx.AsyncClient, **fields: str) -> int:
    answer = await client.post(f"{A}/batch/", data={"source": "files", "name": "Tuesday", **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()["batch_id"]


async def send(
    client: httpx.AsyncClient, batch_id: int, uri: str = "/a.txt", content: bytes = HELLO, **fields: Any
) -> httpx.Response:
    data = {"source_uri": uri, "source": "files", "batch_id": str(batch_id), **fields}
    return await client.post(f"{A}/document/ingest-document", data=data, files={"file": ("a.txt", content)})


def spools() -> list[Path]:
    folder = get_artifacts().spool.folder
    return list(folder.iterdir()) if folder.exists() else []


def multipart(*parts: tuple[str, bytes]) -> tuple[bytes, dict[str, str]]:
    """A body of parts, each given by what names it and by its content; and the header that goes with the body."""
    body = b"".join(
        b"--xyz\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n" % (disposition.encode(), content)
        for disposition, content in parts
    )
    return body + b"--xyz--\r\n", {"content-type": "multipart/form-data; boundary=xyz"}


@pytest.mark.parametrize("encoding", ["data", "files"])
async def test_a_batch_is_made_by_either_kind_of_form(client: httpx.AsyncClient, encoding: str) -> None:
    fields = {"source": "sharepoint", "name": "Q4"}
    form: Any = {"data": fields} if encoding == "data" else {"files": {key: (None, val) for key, val in fields.items()}}
    answer = await client.post(f"{A}/batch/", **form)
    assert (answer.status_code, answer.json()) == (201, {"batch_id": 1})
    (batch,) = (await client.get(f"{A}/batch/")).json()
    assert batch["start_date"].endswith(("Z", "+00:00"))
    assert (batch["name"], batch["source"], batch["completed_date"], batch["duration"]) == (
        "Q4",
        "sharepoint",
        None,
        None,
    )
    page = (await client.get(f"{A}/batch/", params={"page": 1, "rows_per_page": 10})).json()
    assert (page["total"], page["items"]) == (1, [batch])


async def test_an_upload_gives_what_clients_read(client: httpx.AsyncClient) -> None:
    batch_id = await new_batch(client)
    answer = await send(client, batch_id, doc_meta='{"author": "me"}', mime_type="text/plain", priority="3")
    assert (answer.status_code, answer.json()) == (
        201,
        {
            "batch_id": batch_id,
            "document_uri": "/a.txt",
            "document_hash": hash_of(HELLO),
            "source": "files",
            "uri_id": 1,
        },
    )
    known = (await client.get(f"{A}/document/{hash_of(HELLO)}")).json()
    assert known["document"] == {
        "hash": hash_of(HELLO),
        "mime_type": "text/plain",
        "file_size": len(HELLO),
        "doc_meta": {"author": "me", "_priority": 3},
    }
    assert [uri["uri"] for uri in known["uris"]] == ["/a.txt"]
    (event,) = (await client.get(f"{A}/document/{hash_of(HELLO)}/history")).json()
    assert (event["action"], event["version"], event["batch_id"]) == ("created", 1, batch_id)
    assert not spools()


async def test_upload_is_another_name(client: httpx.AsyncClient) -> None:
    data = {"source_uri": "/a", "source": "files", "batch_id": str(await new_batch(client))}
    answer = await client.post(f"{A}/document/upload", data=data, files={"file": ("a", HELLO)})
    assert answer.status_code == 201


async def test_fields_may_follow_the_file(client: httpx.AsyncClient) -> None:
    batch_id = await new_batch(client)
    body, headers = multipart(
        ('name="file"; filename="a.bin"', b"\x00\x01\r\n--xy\r\n" * 5000),
        ('name="source_uri"', "/ordner/ünï.bin".encode()),
        ('name="source"', b"files"),
        ('name="batch_id"', str(batch_id).encode()),
    )
    answer = await client.post(f"{A}/document/ingest-document", content=body, headers=headers)
    assert (answer.status_code, answer.json()["document_uri"]) == (201, "/ordner/ünï.bin")
    assert answer.json()["document_hash"] == hash_of(b"\x00\x01\r\n--xy\r\n" * 5000)


async def test_the_same_content_in_another_batch_is_answered_203(client: httpx.AsyncClient) -> None:
    first, second = await new_batch(client), await new_batch(client)
    assert (await send(client, first)).status_code == 201
    assert (await send(client, first)).status_code == 201
    moved = await send(client, second)
    assert (moved.status_code, moved.json()["batch_id"], moved.json()["uri_id"]) == (203, second, 1)
    changed = await send(client, first, content=b"changed")
    assert changed.status_code == 201
    (uri,) = (await client.get(f"{A}/document/", params={"batch_id": first})).json()
    assert (uri["version"], uri["doc_hash"]) == (2, hash_of(b"changed"))


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"doc_meta": "{"}, 400, "doc_meta: must be a valid JSON object"),
        ({"doc_meta": "[1]"}, 400, "doc_meta: must be a JSON object, not an array"),
        ({"doc_meta": '{"a": NaN}'}, 400, "doc_meta: must be a valid JSON object"),
        ({"doc_meta": '{"a": "\\u0000"}'}, 400, "doc_meta: must not hold NUL"),
        ({"doc_meta": "[" * 100_000}, 400, "doc_meta: "),
        ({"doc_meta": '{"a": ' + "9" * 5000 + "}"}, 400, "doc_meta: must be a valid JSON object"),
        ({"batch_id": "99"}, 404, "batch 99 does not exist"),
        ({"batch_id": "0"}, 422, "batch_id: "),
        ({"batch_id": "many"}, 422, "batch_id: "),
        ({"batch_id": str(2**40)}, 422, "batch_id: "),
        ({"priority": "high"}, 422, "priority: "),
        ({"source": ""}, 422, "source: "),
        ({"source": "   "}, 400, "source: must not be empty"),
        ({"source_uri": "a\x00b"}, 422, "source_uri: "),
        ({"source_uri": "x" * 3000}, 422, "source_uri: "),
        ({"source": "x" * 300}, 400, "source: must be at most 255 bytes"),
    ],
)
async def test_a_bad_upload_says_what_is_wrong_and_leaves_nothing(
    client: httpx.AsyncClient, fields: dict[str, str], status: int, says: str
) -> None:
    batch_id = await new_batch(client)
    given = {"source_uri": "/a", "source": "files", "batch_id": str(batch_id), **fields}
    answer = await client.post(f"{A}/document/ingest-document", data=given, files={"file": ("a", HELLO)})
    assert answer.status_code == status, answer.text
    assert answer.json()["error"].startswith(says)
    file_first = multipart(
        ('name="file"; filename="a"', HELLO), *((f'name="{key}"', value.encode()) for key, value in given.items())
    )
    again = await client.post(f"{A}/document/ingest-document", content=file_first[0], headers=file_first[1])
    assert (again.status_code, again.json()["error"]) == (status, answer.json()["error"])
    assert await scalar("SELECT count(*) FROM document") == 0
    assert not spools()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "body: is not a whole multipart form"),
        (b"nonsense", "body: is not a multipart form"),
        (b"--xyz\r\nContent-Disposition: form-data\r\n\r\nx\r\n--xyz--\r\n", "body: has a part without a name"),
        (
            b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf a fi',
            "body: is not a whole",
        ),
        (multipart(('name="source"', b"a"), ('name="source"', b"b"))[0], "source: is given more than once"),
        (multipart(('name="source"', b"\xff\xfe"))[0], "source: must be UTF-8 text"),
        (multipart(('name="other"; filename="x"', b"x"))[0], "other: must be a field, not a file"),
        (multipart(*[(f'name="f{number}"', b"x") for number in range(200)])[0], "body: must have at most 100 fields"),
    ],
)
async def test_a_broken_form_is_refused(client: httpx.AsyncClient, body: bytes, says: str) -> None:
    headers = {"content-type": "multipart/form-data; boundary=xyz"}
    answer = await client.post(f"{A}/document/ingest-document", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"][: len(says)]) == (400, says)
    assert not spools()


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data", "", "text/plain; charset=x"])
async def test_what_is_no_form_is_refused(client: httpx.AsyncClient, kind: str) -> None:
    answer = await client.post(f"{A}/document/ingest-document", content=b"{}", headers={"content-type": kind})
    assert (answer.status_code, answer.json()["detail"]) == (400, {"field": "content-type"})


async def test_an_upload_without_a_document_is_refused(client: httpx.AsyncClient) -> None:
    data = {"source_uri": "/a", "source": "files", "batch_id": str(await new_batch(client))}
    forms: list[Any] = [{"data": data}, {"data": data, "files": {"file": ("", b"")}}]
    for form in forms:
        answer = await client.post(f"{A}/document/ingest-document", **form)
        assert (answer.status_code, answer.json()["error"]) == (
            400,
            "file: is missing: send a file, or an input_uri to fetch it from",
        )


async def test_an_empty_file_is_a_document_too(client: httpx.AsyncClient) -> None:
    answer = await send(client, await new_batch(client), content=b"")
    assert (answer.status_code, answer.json()["document_hash"]) == (201, hash_of(b""))


async def test_a_document_that_is_too_large_is_answered_413(client: httpx.AsyncClient, database_url: str) -> None:
    batch_id = await new_batch(client)
    async with running_client(doc_db_url=database_url, upload_size_limit=100_000) as strict:
        assert (await send(strict, batch_id, content=b"x" * 100_000)).status_code == 201
        refused = await send(strict, batch_id, content=b"y" * 100_001)
        assert (refused.status_code, refused.json()["detail"]) == (413, {"limit": 100_000})

        async def endless() -> AsyncIterator[bytes]:
            yield b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
            for _ in range(1000):
                yield b"z" * 1000

        headers = {"content-type": "multipart/form-data; boundary=xyz"}
        chunked = await strict.post(f"{A}/document/ingest-document", content=endless(), headers=headers)
        assert chunked.status_code == 413
    assert not spools()


async def test_a_file_is_read_from_a_root_and_from_nowhere_else(
    client: httpx.AsyncClient, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {"source_uri": "/a", "source": "files", "batch_id": str(await new_batch(client))}
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "a.txt").write_bytes(HELLO)
    for uri in ("file:///etc/passwd", (shared / "a.txt").as_uri(), "ftp://host/x", "s3://bucket/key", "nonsense"):
        refused = await client.post(f"{A}/document/ingest-document", data={**data, "input_uri": uri})
        assert (refused.status_code, refused.json()["detail"]) == (400, {"field": "input_uri"}), refused.text
    monkeypatch.setenv("INPUT_FILE_ROOTS", str(shared))
    get_settings.cache_clear()
    uri = (shared / "a.txt").as_uri()
    taken = await client.post(f"{A}/document/ingest-document", data={**data, "input_uri": uri})
    assert (taken.status_code, taken.json()["document_hash"]) == (201, hash_of(HELLO)), taken.text


async def test_documents_are_listed_by_source_or_batch_and_found(client: httpx.AsyncClient) -> None:
    batch_id = await new_batch(client)
    for name in ("/b/Report.pdf", "/a/notes.md"):
        await send(client, batch_id, uri=name, content=name.encode())
    by_source = (await client.get(f"{A}/document/", params={"source": "files"})).json()
    assert [uri["uri"] for uri in by_source] == ["/a/notes.md", "/b/Report.pdf"]
    by_batch = (await client.get(f"{A}/document/", params={"batch_id": batch_id, "page": 1, "rows_per_page": 1})).json()
    assert (by_batch["total"], [uri["uri"] for uri in by_batch["items"]]) == (2, ["/b/Report.pdf"])
    found = (await client.get(f"{A}/document/find", params={"pattern": "REPORT"})).json()
    assert [uri["uri"] for uri in found] == ["/b/Report.pdf"]
    neither = await client.get(f"{A}/document/")
    assert (neither.status_code, neither.json()["detail"]) == (400, {"field": "source"})
    assert (await client.get(f"{A}/document/", params={"batch_id": 99})).status_code == 404
    assert (await client.get(f"{A}/document/find")).status_code == 422
    for path in ("sha256-unknown", "sha256-unknown/history", "%00", "..%2f..%2fetc"):
        assert (await client.get(f"{A}/document/{path}")).status_code == 404, path


@pytest.mark.parametrize("place", ["params", "json", "data"])
async def test_a_uri_is_deleted_by_query_or_body(client: httpx.AsyncClient, place: str) -> None:
    batch_id = await new_batch(client)
    await send(client, batch_id)
    named: Any = {place: {"uri": "/a.txt", "source": "files"}}
    answer = await client.request("DELETE", f"{A}/document/by-uri", **named)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["message"], told["uri"], told["source"]) == ("DocumentURI deleted successfully", "/a.txt", "files")
    assert told["statistics"] == {
        "deleted_document_uris": 1,
        "deleted_uri_history": 1,
        "deleted_documents": 1,
        "deleted_workflow_runs": 0,
        "deleted_run_steps": 0,
        "deleted_lifecycle_history": 0,
        "total_deleted": 3,
    }
    assert not await get_artifacts().has_document(hash_of(HELLO))
    again = await client.request("DELETE", f"{A}/document/by-uri", **named)
    assert (again.status_code, again.json()["error"]) == (
        404,
        "document URI '/a.txt' of source 'files' does not exist",
    )


async def test_deleting_needs_uri_and_source(client: httpx.AsyncClient) -> None:
    answer = await client.delete(f"{A}/document/by-uri", params={"uri": "/a"})
    assert (answer.status_code, answer.json()["detail"]) == (400, {"field": "source"})


async def test_orphans_are_cleaned_up(client: httpx.AsyncClient) -> None:
    batch_id = await new_batch(client)
    await send(client, batch_id, content=b"old")
    await send(client, batch_id, content=b"new")
    answer = (await client.post(f"{A}/document/cleanup-orphans")).json()
    assert answer["message"] == "Orphaned documents cleaned up"
    assert answer["statistics"] | {"deleted_documents": 1, "deleted_history": 1} == answer["statistics"]


async def test_storage_is_validated_and_cleaned_up(client: httpx.AsyncClient) -> None:
    batch_id = await new_batch(client)
    await send(client, batch_id, uri="/a", content=b"a")
    await send(client, batch_id, uri="/b", content=b"b")
    await get_artifacts().delete_all(hash_of(b"b"))
    answer = (await client.get(f"{A}/document/validate_storage", params={"batch_id": batch_id})).json()
    expected = {"batch_id": batch_id, "total": 2, "valid": 1, "missing": 1, "missing_hashes": [hash_of(b"b")]}
    assert answer == {**expected, "damaged_hashes": []}
    cleaned = await client.get(f"{A}/document/validate_storage", params={"batch_id": batch_id, "clean_up": "true"})
    assert cleaned.json()["cleanup_stats"]["deleted_documents"] == 1
    assert (await client.get(f"{A}/document/validate_storage", params={"batch_id": 99})).status_code == 404


async def test_workflows_start_for_a_batch(client: httpx.AsyncClient) -> None:
    batch_id = await new_batch(client)
    for name in "abc":
        await send(client, batch_id, uri=name, content=name.encode())
    form = {"batch_id": str(batch_id), "workflow_definition_id": "test_wf", "param_id": "test_base", "priority": "2"}
    answer = await client.post(f"{A}/batch/start-workflows", data=form)
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert (told["message"], told["workflows"], told["run_group"]["id"]) == (
        "Workflows started",
        3,
        told["run_group_id"],
    )
    status = (await client.get(f"{A}/batch/status", params={"batch_id": batch_id})).json()
    assert (status["batch"]["id"], status["document_count"], status["parsed"], status["remaining"]) == (
        batch_id,
        3,
        0,
        3,
    )
    assert (status["workflow_count"], len(status["workflows"])) == ({"PENDING": 3}, 3)
    steps = (await client.get(f"{A}/batch/{batch_id}/steps")).json()
    assert len(steps) == 15
    again = await client.post(f"{A}/batch/start-workflows", data={**form, "only_unparsed": "true"})
    assert (again.json()["workflows"], again.json()["run_group_id"]) == (0, told["run_group_id"])


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"batch_id": "99"}, 404),
        ({"workflow_definition_id": "nothing"}, 404),
        ({"param_id": "nothing"}, 404),
        ({"batch_id": "x"}, 422),
        ({"only_unparsed": "perhaps"}, 422),
    ],
)
async def test_what_cannot_be_started_is_told(client: httpx.AsyncClient, fields: dict[str, str], status: int) -> None:
    form = {"batch_id": str(await new_batch(client)), "workflow_definition_id": "test_wf", "param_id": "test_base"}
    answer = await client.post(f"{A}/batch/start-workflows", data={**form, **fields})
    assert (answer.status_code, "error" in answer.json()) == (status, True)
    assert await rows_of("SELECT id FROM rungroup") == []


@pytest.mark.parametrize("path", ["batch/status?batch_id=99", "batch/99/steps"])
async def test_an_unknown_batch_is_404(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(f"{A}/{path}")
    assert (answer.status_code, answer.json()) == (404, {"error": "batch 99 does not exist"})


@pytest.mark.parametrize("encoding", ["data", "files"])
async def test_source_status_takes_either_form(client: httpx.AsyncClient, encoding: str) -> None:
    await send(client, await new_batch(client))
    hashes = {
        "/a.txt": hash_of(HELLO),
        "/b.txt": {"sha256": "x", "etag": "y"},
        **{f"/{n}": "sha256-" + "0" * 64 for n in range(30_000)},
    }
    fields = {"source": "files", "hashes": json.dumps(hashes)}
    form: Any = {"data": fields} if encoding == "data" else {"files": {key: (None, val) for key, val in fields.items()}}
    answer = await client.post(f"{A}/source-status", **form)
    assert answer.status_code == 200, answer.text[:300]
    assert answer.json().keys() == hashes.keys()
    assert answer.json()["/a.txt"] == {"hash": hash_of(HELLO), "status": "matched"}
    assert answer.json()["/b.txt"] == {"hash": "x", "status": "new"}


async def test_a_very_long_source_status_leaves_the_loop_free(client: httpx.AsyncClient) -> None:
    """Whatever holds the loop meanwhile fails the test, as in every test of the application."""
    digest = "0" * 64
    body = "source=files&hashes=%7B" + ",".join(f"%22/{n}%22:%22sha256-{digest}%22" for n in range(200_000)) + "%7D"
    blocks = [body[start : start + 100_000].encode() for start in range(0, len(body), 100_000)]

    async def sent() -> AsyncIterator[bytes]:
        for block in blocks:
            yield block

    headers = {"content-type": "application/x-www-form-urlencoded"}
    async with client.stream("POST", f"{A}/source-status", content=sent(), headers=headers) as answer:
        size = sum([len(block) async for block in answer.aiter_raw()])
    assert (answer.status_code, size > len(body) / 2) == (200, True)


async def test_stale_uris_are_deleted_when_asked(client: httpx.AsyncClient) -> None:
    await send(client, await new_batch(client))
    form = {"source": "files", "hashes": '{"/b": "x"}', "delete_stale": "true"}
    answer = await client.post(f"{A}/source-status", data=form)
    assert answer.json() == {"status": {"/b": {"hash": "x", "status": "new"}}, "deleted_count": 1}


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"hashes": "{}"}, 422),
        ({"source": "files"}, 422),
        ({"source": "files", "hashes": "[]"}, 400),
        ({"source": "files", "hashes": "{"}, 400),
        ({"source": "files", "hashes": '{"a": 1}'}, 400),
        ({"source": "files", "hashes": '{"a\\u0000": "1"}'}, 400),
        ({"source": "files", "hashes": "{}", "delete_stale": "perhaps"}, 422),
    ],
)
async def test_a_bad_source_status_is_refused(client: httpx.AsyncClient, fields: dict[str, str], status: int) -> None:
    answer = await client.post(f"{A}/source-status", data=fields)
    assert (answer.status_code, "error" in answer.json()) == (status, True)


async def test_what_a_batch_is_given_is_kept_with_it(client: httpx.AsyncClient) -> None:
    form = {"source": "files", "name": "Q4", "batch_params": '{"department": "finance"}'}
    assert (await client.post(f"{A}/batch/", data=form)).status_code == 201
    assert (await client.get(f"{A}/batch/")).json()[0]["batch_params"] == {"department": "finance"}
    for wrong in ('{"year": 2026}', "[]", "{"):
        answer = await client.post(f"{A}/batch/", data={**form, "batch_params": wrong})
        assert (answer.status_code, answer.json()["error"].partition(":")[0]) == (400, "batch_params")


async def test_the_priority_of_an_upload_is_that_of_its_runs(client: httpx.AsyncClient) -> None:
    batch_id = (await client.post(f"{A}/batch/", data={"source": "files", "name": "Q4"})).json()["batch_id"]

    async def upload(name: str, **more: str) -> None:
        fields = {"source_uri": name, "source": "files", "batch_id": str(batch_id), **more}
        file = {"file": (name, name.encode())}
        assert (await client.post(f"{A}/document/upload", data=fields, files=file)).status_code == 201

    async def priorities() -> list[int]:
        form = {"batch_id": batch_id, "workflow_definition_id": "test_wf", "param_id": "test_base", "priority": 3}
        started = await client.post(f"{A}/batch/start-workflows", data=form)
        assert started.status_code == 201, started.text
        runs = await client.get(f"{A}/workflow/run-groups/{started.json()['run_group_id']}/runs")
        return sorted(run["priority"] for run in runs.json())

    await upload("plain")
    await upload("urgent", priority="7")
    await upload("idle", priority="-2")
    await upload("odd", doc_meta='{"_priority": "very"}')
    assert await priorities() == [-2, 3, 3, 7]
    await upload("urgent")
    assert await priorities() == [-2, 3, 3, 7]
    await upload("urgent", priority="0")
    assert await priorities() == [-2, 3, 3, 3]


@pytest.mark.parametrize("source_id", ["gitea:admin:docs", "github:owner/repo"])
async def test_sync_state_is_kept_merged_and_forgotten(client: httpx.AsyncClient, source_id: str) -> None:
    place = f"{A}/sync-state/{source_id}"
    assert (await client.get(place)).json() == {
        "source_id": source_id,
        "last_commit_sha": None,
        "last_sync_date": None,
        "branch": "main",
        "sync_metadata": {},
    }
    await client.put(place, data={"commit_sha": "abc", "branch": "trunk", "metadata": '{"files": 1, "by": "me"}'})
    put = await client.put(place, data={"commit_sha": "def", "metadata": '{"files": 2}'})
    assert put.status_code == 200, put.text
    known = (await client.get(place)).json()
    assert known == put.json()
    assert (known["last_commit_sha"], known["branch"]) == ("def", "trunk")
    assert known["sync_metadata"] == {"files": 2, "by": "me"}
    # The field's agent appends a `Z` to what it gets, and asks its source for what came after that.
    assert datetime.fromisoformat(known["last_sync_date"] + "Z").tzinfo is UTC
    assert (await client.delete(place)).status_code == 200
    assert (await client.delete(place)).status_code == 404
    assert (await client.put(place, data={"commit_sha": "x", "metadata": "[]"})).status_code == 400
    assert (await client.put(place, data={})).status_code == 422


async def test_pages_are_drawn_where_a_document_has_some(client: httpx.AsyncClient) -> None:
    drawn = io.BytesIO()
    Image.new("RGB", (3000, 1500), "white").save(drawn, "PNG")
    contents = {
        "/a.pdf": (SAMPLES / "workshop" / "sharpening.pdf").read_bytes(),
        "/a.png": drawn.getvalue(),
        "/cut.pdf": b"%PDF-1.7 cut off",
        "/lost.pdf": pdf("lost", "there").replace(b"[3 0 R 5 0 R]", b"[9 0 R 5 0 R]"),
        "/cut.png": drawn.getvalue()[:100],
        "/a.txt": HELLO,
    }
    batch_id = await new_batch(client)
    found: dict[str, list[object]] = {}
    for uri, content in contents.items():
        await send(client, batch_id, uri, content)
        answers = [await client.get(f"{A}/document/{hash_of(content)}/pages/{number}") for number in (1, 9, 0)]
        found[uri] = [answer.status_code for answer in answers]
        if answers[0].status_code == 200:
            assert answers[0].headers["content-type"] == "image/png"
            with Image.open(io.BytesIO(answers[0].content)) as picture:
                found[uri].append(max(picture.size))
    assert found == {
        "/a.pdf": [200, 404, 422, 1600],
        "/a.png": [200, 404, 422, 1600],
        "/cut.pdf": [404, 404, 422],
        "/lost.pdf": [404, 404, 422],
        "/cut.png": [404, 404, 422],
        "/a.txt": [404, 404, 422],
    }
