"""The curl examples of the product's documents, as they are written there, against a running server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.curl import CurlAnswer, curl
from tests.support.documents import hash_of
from tests.support.ingestions import API, expect, new_batch, start, upload_some, wait_until_ended
from tests.support.serving import Server, serving

START_A_BATCH = r"""
curl -X POST "http://localhost:8000/api/v1/batch/start-workflows" \
  -d "batch_id=1" \
  -d "workflow_definition_id=batch" \
  -d "param_id=default"
"""
START_A_DOCUMENT = r"""
curl -X POST "http://localhost:8000/api/v1/workflow/" \
  -d "doc_id=sha256-abc123..." \
  -d "workflow_definition_id=batch"
"""
VACUUM = 'curl "http://localhost:8000/api/v1/lancedb/vacuum?db=my_database"'
RETRY = r"""
curl -X POST "http://localhost:8000/api/v1/workflow/retry" \
  -d "run_group_id=5"
"""
STATS = 'curl "http://localhost:8000/api/v1/workflow/run-groups/5/stats"'
RUN = 'curl "http://localhost:8000/api/v1/workflow/runs/42"'
FAILED_STEPS = 'curl "http://localhost:8000/api/v1/workflow/steps?status=FAILED"'

ELIDED_HASH = "sha256-abc123..."
STEPS = ["validate", "parse", "chunk", "embed", "store"]

# What the documents' examples of each model show.
BATCH = {"id", "name", "source", "start_date", "completed_date", "batch_params", "duration"}
DOCUMENT = {"hash", "mime_type", "file_size", "doc_meta"}
DOCUMENT_URI = {"id", "doc_hash", "uri", "source", "version", "batch_id"}
HISTORY = {"id", "doc_uri_id", "version", "hash", "process_date", "action", "batch_id", "histmeta"}
GROUP = {
    *("id", "name", "workflow_definition_id", "param_definition_id", "batch_id", "created_date", "start_date"),
    *("completed_date", "status", "status_date", "status_message", "status_meta"),
}
WORKFLOW_RUN = {
    *("id", "workflow_definition_id", "run_group_id", "batch_id", "doc_id", "priority", "created_date", "start_date"),
    *("completed_date", "status", "status_date", "status_message", "status_meta", "run_params", "duration"),
}
RUN_STEP = {
    *("id", "workflow_run_id", "workflow_step_number", "workflow_step_name", "step_config_id", "step_type"),
    *("is_last_step", "created_date", "priority", "start_date", "status_date", "completed_date", "retry", "retries"),
    *("status", "status_message", "status_meta", "worker_id", "duration"),
}
LIFECYCLE = {
    *("id", "event", "handler_name", "run_group_id", "workflow_run_id", "step_id", "start_date", "completed_date"),
    *("status", "status_date", "status_message", "status_meta"),
}
WORKER = {"id", "first_checkin", "last_checkin"}


@pytest.fixture
def idle_server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    """One that works nothing off: what is started stays as it was started."""
    with serving(tmp_path / "idle", "--no-worker", environment={"DOC_DB_URL": database_url}) as server:
        yield server


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    """One with a worker, and so much history that run group 5 and run 42 are there: the ten runs of 5 failed."""
    with serving(tmp_path / "busy", environment={"DOC_DB_URL": database_url}) as server:
        with server.client() as client:
            batch_id = new_batch(client)
            upload_some(client, batch_id, 10)
            groups = [start(client, batch_id) for _ in range(4)]
            groups.append(start(client, batch_id, "test_wf_fail"))
            wait_until_ended(client, groups)
        yield server


def test_workflows_are_started_for_a_batch(idle_server: Server, tmp_path: Path) -> None:
    unknown = curl(START_A_BATCH, idle_server.url, tmp_path)
    assert (unknown.status, unknown.json()) == (404, {"error": "batch 1 does not exist"})
    with idle_server.client() as client:
        hashes = upload_some(client, new_batch(client), 3)
        answer = curl(START_A_BATCH, idle_server.url, tmp_path)
        told = answer.json()
        assert (answer.status, told["message"], told["workflows"]) == (201, "Workflows started", 3)
        group = told["run_group"]
        assert group.keys() >= GROUP
        assert (group["workflow_definition_id"], group["param_definition_id"], group["batch_id"]) == (
            "batch",
            "default",
            1,
        )
        runs = expect(client.get(f"{API}/workflow/run-groups/{told['run_group_id']}/runs"))
        assert {run["doc_id"] for run in runs} == set(hashes)


def test_a_workflow_is_started_for_a_document(idle_server: Server, tmp_path: Path) -> None:
    elided = curl(START_A_DOCUMENT, idle_server.url, tmp_path)
    assert (elided.status, elided.json()) == (404, {"error": f"document '{ELIDED_HASH}' does not exist"})
    with idle_server.client() as client:
        (doc_hash,) = upload_some(client, new_batch(client), 1)
    answer = curl(START_A_DOCUMENT.replace(ELIDED_HASH, doc_hash), idle_server.url, tmp_path)
    assert answer.status == 201
    run, steps = answer.json()
    assert (run["doc_id"], run["workflow_definition_id"], run["status"]) == (doc_hash, "batch", "PENDING")
    assert [step["workflow_step_name"] for step in steps] == STEPS
    assert run.keys() >= WORKFLOW_RUN


def test_a_database_is_vacuumed(idle_server: Server, filled: Path, tmp_path: Path) -> None:
    missing = curl(VACUUM, idle_server.url, tmp_path)
    assert (missing.status, missing.json()["status"]) == (404, "not_found")
    shutil.copytree(filled, tmp_path / "idle" / "data" / "lancedb" / "my_database")
    answer = curl(VACUUM, idle_server.url, tmp_path)
    assert (answer.status, answer.json()["status"], answer.json()["db"]) == (200, "ok", "my_database")


def test_a_group_is_watched_looked_into_and_retried(server: Server, tmp_path: Path) -> None:
    see_stats(curl(STATS, server.url, tmp_path))
    see_run(curl(RUN, server.url, tmp_path))
    see_failed_steps(curl(FAILED_STEPS, server.url, tmp_path))
    retried = curl(RETRY, server.url, tmp_path)
    assert (retried.status, retried.json()) == (201, {"run_group_id": 5, "reset_steps": 30, "reset_runs": 10})


def see_stats(answer: CurlAnswer) -> None:
    shown = {
        "total_runs": 10,
        "completed": 0,
        "running": 0,
        "pending": 0,
        "failed": 10,
        "group_status": "FAILED",
    }
    assert answer.status == 200
    assert answer.json() | shown == answer.json()
    assert answer.json()["average_duration"] > 0


def see_run(answer: CurlAnswer) -> None:
    assert answer.status == 200
    run = answer.json()
    assert run.keys() >= WORKFLOW_RUN | {"steps"}
    assert (run["id"], run["run_group_id"], run["status"]) == (42, 5, "FAILED")
    assert [step["status"] for step in run["steps"]] == ["COMPLETED", "COMPLETED", "FAILED", "CANCELLED", "CANCELLED"]
    assert all(step.keys() >= RUN_STEP for step in run["steps"])


def see_failed_steps(answer: CurlAnswer) -> None:
    assert answer.status == 200
    steps = answer.json()
    assert {step["workflow_run_id"] for step in steps} == set(range(41, 51))
    assert {step["workflow_step_name"] for step in steps} == {"chunk"}
    assert all(step["status_message"] for step in steps)


def test_every_model_is_shown_with_the_fields_of_its_example(server: Server) -> None:
    first = hash_of(b"files: paper 0")
    with server.client() as client:

        def rows(path: str) -> list[set[str]]:
            found = expect(client.get(f"{API}/{path}"))
            return [set(row) for row in (found if isinstance(found, list) else [found])]

        shown = {
            "batch/": BATCH,
            "document/?batch_id=1": DOCUMENT_URI,
            f"document/{first}/history": HISTORY,
            "workflow/run-groups/5": GROUP,
            "workflow/": WORKFLOW_RUN,
            "batch/1/steps": RUN_STEP,
            "workflow/runs/42/lifecycle": LIFECYCLE,
            "workers": WORKER,
        }
        for path, fields in shown.items():
            found = rows(path)
            assert found, path
            assert all(row >= fields for row in found), path
        assert expect(client.get(f"{API}/document/{first}"))["document"].keys() == DOCUMENT
