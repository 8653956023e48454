"""Goals by command and over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from soliplex.ingester import Executor, Orchestrator
from soliplex.ingester.goals.orchestrator import NewGoal, start
from soliplex.ingester.lib.config import get_settings
from tests.support.command_line import CommandLine
from tests.support.goal_functions import STEPS, decompose

G = "/api/v1/goals"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that clients may have read."""
    found = tmp_path / "open"
    found.mkdir()
    (found / "sea.md").write_text("# The sea\n\nThe sea is wide, and ships cross it.\n")
    monkeypatch.setenv("INPUT_FILE_ROOTS", str(found))
    monkeypatch.setenv("ORCHESTRATOR_ALLOW_SHELL", "true")
    get_settings.cache_clear()
    return found


async def test_a_goal_is_planned_then_started_as_planned_then_followed(folder: Path, client: httpx.AsyncClient) -> None:
    planned = await client.post(f"{G}/plan", json={"goal": "run `echo one`, then run `echo two`"})
    assert planned.status_code == 200
    plan = planned.json()
    assert plan["graph"]["edges"] == [{"source": "shell", "target": "shell_2"}]
    assert (await client.get(f"{G}/")).json() == [], "planning starts nothing"
    started = await client.post(f"{G}/", json={"plan": plan["plan"], "key": "k"})
    assert started.status_code == 201
    run_id = started.json()["run_id"]
    assert (await client.post(f"{G}/", json={"plan": plan["plan"], "key": "k"})).json() == {"run_id": run_id}
    waiting = (await client.get(f"{G}/{run_id}")).json()
    assert (waiting["result"]["status"], waiting["graph"]) == ("started", None)
    await Executor.execute_pending_tasks()
    goal = (await client.get(f"{G}/{run_id}")).json()
    assert goal["result"]["status"] == "completed"
    assert goal["result"]["output"] == {"shell_2": {"command": "echo two", "output": "two\n"}}
    assert goal["result"]["tasks"] == {"shell": "completed", "shell_2": "completed"}
    assert goal["result"]["flow_slug"] == plan["slug"]
    assert goal["graph"]["edges"] == plan["graph"]["edges"]
    run = (await client.get(f"/api/v1/flows/runs/{goal['result']['flow_run_id']}")).json()
    assert [step["name"] for step in run["steps"]] == ["shell", "shell_2"]
    (listed,) = (await client.get(f"{G}/", params={"page": 1})).json()["items"]
    assert (listed["run_id"], listed["status"], listed["goal"]) == (run_id, "completed", plan["goal"])


async def test_a_client_has_files_read_below_the_open_folders_alone(folder: Path, client: httpx.AsyncClient) -> None:
    goal = f"segment {folder.parent / 'secret.md'}"
    for route in ("plan", ""):
        refused = await client.post(f"{G}/{route}", json={"goal": goal})
        assert (refused.status_code, refused.json()["detail"]["field"]) == (400, "path")
        assert "INPUT_FILE_ROOTS" in refused.json()["error"]
    (folder / "link.md").symlink_to("/etc/passwd")
    assert (await client.post(f"{G}/plan", json={"goal": f"segment {folder / 'link.md'}"})).status_code == 400
    # A plan that was changed on its way is refused by the task that would read the file, if not before.
    plan = (await client.post(f"{G}/plan", json={"goal": f"segment {folder}"})).json()["plan"]
    plan["tasks"]["segment"]["params"]["path"] = "/etc/passwd"
    run_id = (await client.post(f"{G}/", json={"plan": plan})).json()["run_id"]
    await Executor.execute_pending_tasks()
    result = (await client.get(f"{G}/{run_id}")).json()["result"]
    assert result["status"] == "failed"
    assert "INPUT_FILE_ROOTS" in result["error"]


@pytest.mark.parametrize(
    ("body", "field", "problem"),
    [
        ({"goal": "make coffee"}, "goal", "'make coffee' is not understood"),
        ({"goal": "  "}, "goal", "is empty"),
        ({}, "goal", "give one of the two"),
        ({"goal": "search for x", "decomposer": "llm"}, "decomposer", "set LLM_BACKEND"),
        ({"plan": {"goal": "x"}}, "graph", "with its tasks by their ids"),
        ({"plan": {"tasks": {}}}, "tasks", "is empty"),
        ({"plan": {"tasks": {"a": {"id": "a", "kind": "os:system"}}}}, "steps", "known are"),
        (
            {"plan": {"tasks": {"a": {"id": "a", "depends_on": ["b"]}, "b": {"id": "b", "depends_on": ["a"]}}}},
            "tasks",
            "go round in a circle",
        ),
    ],
)
async def test_what_is_no_goal_is_refused_by_field_and_starts_nothing(
    client: httpx.AsyncClient, body: dict[str, Any], field: str, problem: str
) -> None:
    refused = await client.post(f"{G}/", json=body)
    assert (refused.status_code, refused.json()["detail"]["field"]) == (400, field)
    assert problem in refused.json()["error"]
    assert (await client.get(f"{G}/")).json() == []


async def test_a_run_that_is_no_goal_is_not_found_among_goals(client: httpx.AsyncClient) -> None:
    run_id = (await start(NewGoal(goal="to be", decomposer=decompose, steps=STEPS))).run_id
    await Executor.execute_pending_tasks()
    flow_run_id = (await Orchestrator.goal_status(run_id)).flow_run_id
    assert (await client.get(f"{G}/{run_id}")).status_code == 200
    assert (await client.get(f"{G}/{flow_run_id}")).status_code == 404
    assert (await client.get(f"{G}/999")).status_code == 404


def test_a_goal_is_planned_and_executed_by_command(
    commands: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTRATOR_ALLOW_SHELL", "true")
    get_settings.cache_clear()
    assert "shell_2 shell shell" in commands("si-cli", "goal", "--plan", "run `true`, then run `echo two`").words
    done = commands.json("si-cli", "goal", "run `echo one`")
    assert (done["status"], done["output"]["shell"]["output"]) == ("completed", "one\n")
    failed = commands("si-cli", "goal", "run `exit 3`")
    assert (failed.code, "ended with 3" in failed.out) == (1, True)
    wrong = commands("si-cli", "goal", "make coffee")
    assert (wrong.code, "is not understood" in wrong.err) == (2, True)
