"""A client of a running server that uploads, starts workflows and waits for their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

API = "/api/v1"
ENDED = {"COMPLETED", "FAILED", "CANCELLED"}


def expect(answer: httpx.Response, status: int = 200) -> Any:
    """The answer's content, if it has this status."""
    assert answer.status_code == status, f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text}"
    return answer.json()


def new_batch(client: httpx.Client, source: str = "files") -> int:
    return expect(client.post(f"{API}/batch/", data={"source": source, "name": "Q4"}), 201)["batch_id"]


def upload(client: httpx.Client, batch_id: int, uri: str, content: bytes, source: str = "files") -> Any:
    data = {"source_uri": uri, "source": source, "batch_id": str(batch_id), "doc_meta": '{"author": "Ada"}'}
    sent = client.post(f"{API}/document/ingest-document", data=data, files={"file": (uri, content)})
    return expect(sent, 201)


def upload_some(client: httpx.Client, batch_id: int, count: int, source: str = "files") -> list[str]:
    """Upload so many documents; gives their hashes."""
    contents = [f"{source}: paper {number}".encode() for number in range(count)]
    return [
        upload(client, batch_id, f"/papers/{number}.txt", content, source)["document_hash"]
        for number, content in enumerate(contents)
    ]


def start(client: httpx.Client, batch_id: int, workflow: str = "test_wf") -> int:
    """Start a workflow for a batch; gives the group's id."""
    form = {"batch_id": batch_id, "workflow_definition_id": workflow, "param_id": "test_base"}
    return expect(client.post(f"{API}/batch/start-workflows", data=form), 201)["run_group_id"]


def wait_until_ended(client: httpx.Client, group_ids: Sequence[int]) -> None:
    waiting = Retrying(stop=stop_after_delay(60), wait=wait_fixed(0.05), retry=retry_if_result(lambda done: not done))
    for group_id in group_ids:
        waiting(lambda id_=group_id: _status(client, id_) in ENDED)


def _status(client: httpx.Client, group_id: int) -> str:
    return expect(client.get(f"{API}/workflow/run-groups/{group_id}"))["status"]
