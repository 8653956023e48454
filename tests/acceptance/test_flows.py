"""Flows by command and over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.wf.flows import Executor
from tests.support import flow_functions
from tests.support.command_line import CommandLine

F = "/api/v1/flows"
SHAKY = "tests.support.flow_functions.shaky"
DOUBLE = {"name": "double", "type": "task", "command": "tests.support.flow_functions.doubled"}
FLOW = {
    "title": "Doubling",
    "steps": [
        DOUBLE,
        {"name": "scan", "type": "@scan", "command": "scan", "dependencies": ["double"]},
    ],
}


def test_a_flow_is_created_shown_and_run_by_command(commands: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "flow.json"
    double = {**DOUBLE, "repeat": {"until": "output > 3", "max": 2}}
    file.write_text(json.dumps({**FLOW, "steps": [double]}))
    assert "flow doubling is saved, version 1" in commands("si-cli", "flow", "create", str(file)).out
    assert commands.json("si-cli", "flow", "list") == [
        {"slug": "doubling", "title": "Doubling", "version": 1, "steps": 1}
    ]
    shown = commands("si-cli", "flow", "show", "doubling").words
    assert "double" in shown
    assert "until output > 3, 2 times at most" in shown
    ran = commands.json("si-cli", "flow", "run", "doubling", "--here", "--input", '{"number": 4}', "--key", "k")
    assert (ran["status"], ran["output"]) == ("completed", {"double": 8})
    assert "completed" in commands("si-cli", "flow", "status", str(ran["id"])).out
    again = commands("si-cli", "flow", "run", "doubling", "--key", "k")
    assert f"run {ran['id']} of doubling" in again.out
    failed = commands("si-cli", "flow", "run", "doubling", "--here", "--wait", "0", "--input", "{}")
    assert failed.code == 1
    assert "asks for number" in commands("si-cli", "flow", "status", "2").out


def test_a_run_that_is_executed_here_is_waited_for_to_its_end(
    commands: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though a step fails at first, and is to be tried again after a while."""
    monkeypatch.setattr(flow_functions, "failures", [ConnectionError("nobody answers")])
    file = tmp_path / "flow.json"
    file.write_text(json.dumps({"title": "Shaky", "steps": [{"name": "shaky", "command": SHAKY}]}))
    commands("si-cli", "flow", "create", str(file))
    ran = commands.json("si-cli", "flow", "run", "shaky", "--here")
    assert (ran["status"], ran["output"], ran["steps"][0]["attempt"]) == ("completed", {"shaky": "at last"}, 2)
    assert commands("si-cli", "goal", "run `true`").code == 1, "which stores a flow of the product's own"
    assert [flow["slug"] for flow in commands.json("si-cli", "flow", "list")] == ["shaky"]


def test_what_is_wrong_with_a_flow_is_wrong_usage(commands: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "flow.json"
    file.write_text('{"title": "x", "steps": [{"name": "a", "command": "m.f", "dependencies": ["b"]}]}')
    answer = commands("si-cli", "flow", "create", str(file))
    assert answer.code == 2
    assert "b" in answer.err
    file.write_text("{")
    assert commands("si-cli", "flow", "create", str(file)).code == 2
    assert commands("si-cli", "flow", "run", "nobody").code == 1
    assert commands("si-cli", "flow", "run", "nobody", "--input", "{").code == 2


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOW_MODULES", "tests.support.flow_functions")
    get_settings.cache_clear()


async def save(client: httpx.AsyncClient, definition: Any = FLOW) -> httpx.Response:
    return await client.post(f"{F}/", json={"definition": definition})


async def test_a_flow_is_saved_started_and_followed_over_http(allowed: None, client: httpx.AsyncClient) -> None:
    saved = await save(client)
    assert (saved.status_code, saved.json()["slug"], saved.json()["version"]) == (201, "doubling", 1)
    assert [each["slug"] for each in (await client.get(f"{F}/")).json()] == ["doubling"]
    flow = (await client.get(f"{F}/doubling")).json()
    assert (flow["version"], [(step["type"], step["command"]) for step in flow["steps"]]) == (
        1,
        [("task", "tests.support.flow_functions.doubled"), ("@scan", "scan")],
    )
    graph = (await client.get(f"{F}/doubling/graph")).json()
    assert graph["edges"] == [{"source": "double", "target": "scan"}]
    body = {"input": {"number": 4}, "key": "k"}
    run_id = (await client.post(f"{F}/doubling/runs", json=body)).json()["run_id"]
    assert (await client.post(f"{F}/doubling/runs", json=body)).json()["run_id"] == run_id
    await Executor.execute_pending_tasks()
    run = (await client.get(f"{F}/runs/{run_id}")).json()
    assert (run["status"], [step["output"] for step in run["steps"]]) == ("started", [8, None])
    claimed = (await client.post("/api/v1/tasks/claim", json={"worker": "me", "types": ["@scan"]})).json()
    (task,) = claimed["tasks"]
    assert (task["input"], task["parameters"]) == ({"number": 4, "double": 8}, {"command": "scan"})
    await client.post("/api/v1/tasks/complete", json={"id": task["id"], "lease": claimed["lease"], "output": "page"})
    assert (await client.get(f"{F}/runs/{run_id}")).json()["output"] == {"scan": "page"}
    assert (await client.get(f"{F}/runs/{run_id}/attempts")).json() == []
    assert len((await client.get(f"{F}/runs/{run_id}/graph")).json()["nodes"]) == 2
    assert (await client.delete(f"{F}/doubling")).status_code == 204
    assert (await client.get(f"{F}/doubling")).status_code == 404


async def test_all_that_a_definition_says_is_shown(allowed: None, client: httpx.AsyncClient) -> None:
    said: dict[str, Any] = {
        "name": "each",
        "type": "map",
        "command": "tests.support.flow_functions.doubled",
        "dependencies": [],
        "max_attempts": 5,
        "timeout": 30.0,
        "when": "size(input) > 1",
        "repeat": {"until": "output > 9", "max": 4, "delay": 0.5},
        "optional": True,
        "tolerant": True,
        "max_failures": 2,
        "gather": False,
        "priority": 3,
    }
    assert (await save(client, {"title": "All", "steps": [said]})).status_code == 201
    assert (await client.get(f"{F}/all")).json()["steps"] == [{**said, "queue": None}]


async def test_json_that_is_not_said_to_be_json_is_refused_with_the_header_to_send(client: httpx.AsyncClient) -> None:
    kind = "text/plain"
    refused = await client.post(f"{F}/", content=json.dumps({"definition": FLOW}), headers={"Content-Type": kind})
    assert refused.status_code == 422
    assert f"sent with `Content-Type: application/json`; its type is '{kind}'" in refused.json()["error"]


async def test_a_run_is_cancelled_and_retried_over_http(allowed: None, client: httpx.AsyncClient) -> None:
    await save(client)
    run_id = (await client.post(f"{F}/doubling/runs", json={"input": {"number": 1}})).json()["run_id"]
    assert (await client.post(f"{F}/runs/{run_id}/cancel")).json()["status"] == "cancelled"
    assert (await client.post(f"{F}/runs/{run_id}/retry")).json()["status"] == "started"
    assert (await client.get(f"{F}/runs/999")).status_code == 404


async def test_a_function_of_a_module_that_is_not_allowed_is_refused(client: httpx.AsyncClient) -> None:
    refused = await save(client, {"title": "Evil", "steps": [{"name": "a", "type": "task", "command": "os.system"}]})
    assert refused.status_code == 400
    assert "steps[0].command: is 'os.system', of a module that FLOW_MODULES does not allow" in refused.text
    assert (await client.get(f"{F}/")).json() == []


async def test_schedules_are_added_paused_and_removed_over_http(allowed: None, client: httpx.AsyncClient) -> None:
    await save(client)
    body = {"name": "nightly", "slug": "doubling", "cron": "0 6 * * *", "time_zone": "Europe/Paris"}
    assert (await client.post(f"{F}/schedules", json=body)).status_code == 201
    assert (await client.post(f"{F}/schedules", json=body)).status_code == 409
    assert (await client.post(f"{F}/schedules", json={**body, "name": "b", "cron": "99 * * * *"})).status_code == 400
    assert (await client.post(f"{F}/schedules/nightly/pause")).json()["next_due_at"] is None
    assert (await client.post(f"{F}/schedules/nightly/resume")).json()["next_due_at"] is not None
    assert [each["name"] for each in (await client.get(f"{F}/schedules")).json()] == ["nightly"]
    assert (await client.delete(f"{F}/schedules/nightly")).status_code == 204
    assert (await client.delete(f"{F}/schedules/nightly")).status_code == 404


async def test_a_signal_to_a_flow_is_recorded(client: httpx.AsyncClient) -> None:
    sent = await client.post(f"{F}/signals/approve", json={"by": "Ada"})
    assert (sent.status_code, sent.json()["standing"]) == (201, "kept")
