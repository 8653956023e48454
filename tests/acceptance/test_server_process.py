"""`si-cli serve` as a process: it serves, works, tells, and stops when it is told to."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.serving import COMMAND, Server, serving

ROOT = Path(__file__).parents[2]
A = "/api/v1"


def upload_and_start(client: httpx.Client, *names: str, workflow: str = "test_wf") -> int:
    """Upload documents as a client in the field does, and start a workflow for them; gives the run group."""
    batch_id = client.post(f"{A}/batch/", data={"source": "shelf", "name": "Tuesday"}).json()["batch_id"]
    for name in names:
        answer = client.post(
            f"{A}/document/ingest-document",
            files={"file": (name, name.encode() * 10, "text/plain")},
            data={"source_uri": f"/{name}", "source": "shelf", "batch_id": batch_id},
        )
        assert answer.status_code == 201, answer.text
    form = {"batch_id": batch_id, "workflow_definition_id": workflow, "param_id": "test_base"}
    started = client.post(f"{A}/batch/start-workflows", data=form)
    assert started.status_code == 201, started.text
    return started.json()["run_group_id"]


def events_of(lines: Iterator[str]) -> Iterator[tuple[str | None, str, dict[str, Any]]]:
    """The id, kind and data of each event of a stream."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield fields.get("id"), fields["event"], json.loads(fields["data"])
            fields = {}


def until_the_group_ends(stream: httpx.Response) -> list[tuple[str | None, str, dict[str, Any]]]:
    seen: list[tuple[str | None, str, dict[str, Any]]] = []
    for event in events_of(stream.iter_lines()):
        seen.append(event)
        if event[1] == "group" and event[2]["completed_date"] is not None:
            break
    return seen


def test_documents_are_processed_and_told_of_and_a_signal_ends_it_all(tmp_path: Path) -> None:
    with serving(tmp_path, environment={"LOG_FORMAT": "json"}, afresh=True) as server, server.client() as client:
        group_id = upload_and_start(client, "a.txt", "b.txt")
        with client.stream("GET", f"{A}/events", params={"run_group_id": group_id}) as stream:
            seen = until_the_group_ends(stream)
        assert seen[-1][2]["status"] == "COMPLETED"
        runs = client.get(f"{A}/workflow/run-groups/{group_id}/runs").json()
        assert {run["status"] for run in runs} == {"COMPLETED"}

        with client.stream("GET", f"{A}/events", headers={"Last-Event-ID": "1-g1"}) as stream:
            missed = until_the_group_ends(stream)
        assert {data["workflow_run_id"] for _, kind, data in missed if kind == "run"} == {run["id"] for run in runs}
        assert all(number for number, kind, _ in missed if kind == "run")

        assert client.get(f"{A}/workers").json()[0]["pid"] == server.pid
        client.get(f"{A}/locks", headers={"X-Request-ID": "from-a-test"})
        with client.stream("GET", f"{A}/events") as endless:
            assert next(endless.iter_lines()).startswith("retry: ")
            assert server.stop() == 0
    log = [json.loads(line) for line in server.lines() if line.startswith("{")]
    told = [line["path"] for line in log if line.get("request_id") == "from-a-test" and "path" in line]
    assert told == [f"{A}/locks"]
    begun = [line["run_group_id"] for line in log if line.get("path") == f"{A}/batch/start-workflows"]
    assert begun == [group_id]
    assert any("stopped" in line["event"] for line in log)


@pytest.fixture
def slow_workflows(tmp_path: Path) -> Path:
    """A folder with a workflow whose one step never ends by itself."""
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "slow.yaml").write_text(
        "id: slow\nitem_steps:\n  validate: {name: wait, method: tests.support.handlers.forever}\n", encoding="utf-8"
    )
    return folder


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_steps_under_way_go_back_when_the_server_stops(
    tmp_path: Path, slow_workflows: Path, number: signal.Signals
) -> None:
    environment = {
        "WORKFLOW_DIR": str(slow_workflows),
        "WORKER_STOP_TIMEOUT_SECONDS": "0.2",
        "PYTHONPATH": str(ROOT),
    }
    with serving(tmp_path, environment=environment) as server, server.client() as client:
        group_id = upload_and_start(client, "a.txt", workflow="slow")
        with client.stream("GET", f"{A}/events", params={"run_group_id": group_id}) as stream:
            assert any(
                kind == "step" and data["status"] == "RUNNING" for _, kind, data in events_of(stream.iter_lines())
            )
        assert server.stop(number) == 0
    rows = sqlite3.connect(tmp_path / "data" / "documents.db")
    assert rows.execute("SELECT status, retry, worker_id FROM runstep").fetchall() == [("PENDING", 0, None)]
    assert rows.execute("SELECT * FROM workercheckin").fetchall() == []
    rows.close()


def test_a_server_without_a_worker_leaves_the_work_to_others(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-worker") as server, server.client() as client:
        group_id = upload_and_start(client, "a.txt")
        assert client.get(f"{A}/workers").json() == []
        assert client.get(f"{A}/workflow/run-groups/{group_id}/stats").json()["pending"] == 1
        with serving(tmp_path) as other, other.client() as there:
            with client.stream("GET", f"{A}/events", params={"run_group_id": group_id}) as stream:
                until_the_group_ends(stream)
            assert there.get(f"{A}/workflow/run-groups/{group_id}").json()["status"] == "COMPLETED"
            assert other.stop() == 0
        assert server.stop() == 0


def test_several_processes_serve_and_count_together(tmp_path: Path) -> None:
    environment = {"WORKER_STOP_TIMEOUT_SECONDS": "5"}
    with serving(tmp_path, "--workers", "2", environment=environment, afresh=True) as server:
        pids = worker_pids(server, 2)
        assert len(pids) == 2
        with server.client() as client:
            for _ in range(10):
                client.get(f"{A}/locks", headers={"Connection": "close"})
            text = client.get("/metrics").text
        assert 'soliplex_http_requests_total{method="GET",route="/api/v1/locks",status="200"} 10.0' in text
        assert server.stop() == 0
    rows = sqlite3.connect(tmp_path / "data" / "documents.db")
    assert rows.execute("SELECT * FROM workercheckin").fetchall() == []
    rows.close()


def worker_pids(server: Server, wanted: int) -> set[int]:
    """The processes of the workers, once so many have checked in."""
    pids: set[int] = set()
    with server.client() as client:
        for _ in range(200):
            pids = {worker["pid"] for worker in client.get(f"{A}/workers").json()}
            if len(pids) >= wanted:
                return pids
    raise AssertionError(f"only {len(pids)} workers came")


def test_wrong_settings_and_wrong_usage_are_told_in_a_line(tmp_path: Path) -> None:
    import os
    import socket
    import subprocess

    def run(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {"DATA_DIR": str(tmp_path), "PYDANTIC_DISABLE_PLUGINS": "logfire-plugin", **environment}
        return subprocess.run(
            [*COMMAND, *options], env=os.environ | settings, capture_output=True, text=True, timeout=60, check=False
        )

    refused = run(PRODUCTION_MODE="true")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: PRODUCTION_MODE")
    assert run("--port", "99999").returncode == 2
    assert run("--reload", "--workers", "2").returncode == 2
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused = run("--port", str(other.getsockname()[1]))
    assert refused.returncode == 2
    assert "Address already in use" in refused.stderr
    assert "--port" in refused.stderr
    assert run("--host", "no.such.host.invalid").returncode == 2
