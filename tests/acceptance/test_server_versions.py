"""`/api/v1/document/versions`, `/diff` and `/rollback`, as a client calls them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.acceptance.test_server_documents import new_batch, send
from tests.support.documents import hash_of
from tests.support.engine import scalar

D = "/api/v1/document"
PLACE = {"uri": "/a.txt", "source": "files"}
ONE, TWO = b"one\n", b"two\n"


@pytest.fixture
async def twice(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """A server where one URI has had two contents."""
    batch_id = await new_batch(client)
    for content in (ONE, TWO):
        assert (await send(client, batch_id, content=content)).status_code == 201
    return client


async def test_versions_are_listed(twice: httpx.AsyncClient) -> None:
    new, old = (await twice.get(f"{D}/versions", params=PLACE)).json()
    assert (new["version"], new["hash"], new["is_current"], new["is_stored"]) == (2, hash_of(TWO), True, True)
    assert (old["version"], old["action"], old["file_size"], old["artifacts"]) == (1, "created", 4, [])
    assert old["process_date"].endswith("Z")
    page = (await twice.get(f"{D}/versions", params={**PLACE, "page": 2, "rows_per_page": 1})).json()
    assert (page["total"], page["items"]) == (2, [old])


@pytest.mark.parametrize("kind", ["data", "json", "files"])
async def test_a_uri_goes_back_once_however_it_is_asked_to(twice: httpx.AsyncClient, kind: str) -> None:
    fields: Any = {**PLACE, "version": "1"}
    body = {name: (None, value) for name, value in fields.items()} if kind == "files" else fields
    sent: dict[str, Any] = {kind: body}
    answer = await twice.post(f"{D}/rollback", **sent)
    told = {**PLACE, "rolled_back_to": 1, "version": 3, "hash": hash_of(ONE), "runs": []}
    assert (answer.status_code, answer.json()) == (201, {**told, "is_changed": True})
    again = await twice.post(f"{D}/rollback", **sent)
    assert (again.status_code, again.json()) == (200, {**told, "is_changed": False})


async def test_the_run_that_follows_is_named(twice: httpx.AsyncClient) -> None:
    fields = {**PLACE, "version": 1, "workflow_definition_id": "test_wf", "param_id": "test_base", "priority": -3}
    (run,) = (await twice.post(f"{D}/rollback", json=fields)).json()["runs"]
    assert (run["workflow_definition_id"], run["param_definition_id"]) == ("test_wf", "test_base")
    found = (await twice.get(f"/api/v1/workflow/runs/{run['workflow_run_id']}")).json()
    assert (found["doc_id"], found["run_group_id"], found["priority"]) == (hash_of(ONE), run["run_group_id"], -3)


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"version": 7}, 404, "version 7 of '/a.txt' does not exist: it has had versions 1 to 2"),
        ({"uri": "/b.txt"}, 404, "document URI '/b.txt' of source 'files' does not exist"),
        ({"version": "one"}, 400, "version: must be a whole number"),
        ({"version": None}, 400, "version: is missing"),
        ({"priority": "high"}, 400, "priority: must be a whole number"),
        ({"workflow_definition_id": "unheard-of"}, 404, "workflow 'unheard-of'"),
    ],
)
async def test_what_cannot_be_done_is_said(
    twice: httpx.AsyncClient, changes: dict[str, Any], status: int, words: str
) -> None:
    answer = await twice.post(f"{D}/rollback", json={**PLACE, "version": 1, **changes})
    assert (answer.status_code, answer.json()["error"][: len(words)]) == (status, words)
    assert await scalar("SELECT version FROM documenturi") == 2


async def test_versions_without_text_are_not_compared(twice: httpx.AsyncClient) -> None:
    answer = await twice.get(f"{D}/diff", params=PLACE)
    assert answer.status_code == 409
    assert answer.json()["error"].startswith("version 1 of '/a.txt' has no text: it was never parsed")
    answer = await twice.get(f"{D}/diff", params={**PLACE, "from": 3})
    assert answer.status_code == 404
    assert (await twice.get(f"{D}/diff", params={**PLACE, "from": 0})).status_code == 422
