"""Goals by command and over HTTP."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from soliplex.ingester import Database, Executor, Orchestrator
from soliplex.ingester.goals.orchestrator import NewGoal, start
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.wf.feed import ChangeFeed
from soliplex.ingester.lib.wiring import current_wiring
from soliplex.ingester.server.routes.goals import stream_of
from tests.support.command_line import CommandLine
from tests.support.goal_functions import STEPS, decompose
from tests.support.optimizing import chain, record, retime, save

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


async def until_ended(run_id: int) -> None:
    """Execute what is ready, and what a subflow makes ready by its end, which another duty notices a moment later."""
    for _ in range(60):
        await Executor.execute_pending_tasks()
        if (await Executor.status(run_id)).status != "started":
            return


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
    await until_ended(run_id)
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
    await until_ended(run_id)
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
    await until_ended(run_id)
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


async def test_events_are_told_over_http_as_they_happen_and_afterwards(client: httpx.AsyncClient) -> None:
    assert (await client.get(f"{G}/events", params={"name": "task_done"})).status_code == 400
    events = list[str]()
    feed = current_wiring().kept(ChangeFeed)
    async with aclosing(stream_of(feed, "decomposition")) as told, asyncio.timeout(60):
        await anext(told)
        await anext(told)  # how things stand: what happens from now on is told
        run_id = (await start(NewGoal(goal="to be", decomposer=decompose, steps=STEPS))).run_id
        await until_ended(run_id)
        while len(events) < 2:
            events += [line for line in (await anext(told)).splitlines() if line.startswith("event")]
    assert events == ["event: decomposition_started", "event: decomposition_completed"]
    recent = (await client.get(f"{G}/recent", params={"kind": "decomposition_completed"})).json()
    assert [(event["run_id"], event["step"]) for event in recent] == [(run_id, "decompose")]
    assert (await client.get(f"{G}/recent", params={"kind": "task"})).status_code == 400


async def test_recommendations_are_told_and_tried_over_http(client: httpx.AsyncClient) -> None:
    flow = chain()
    await save(flow)
    none = (await client.get("/api/v1/flows/chain/recommendations")).json()
    assert none["notes"] == ["no run of this flow has ended yet"]
    assert [each["is_applied"] for each in none["recommendations"]] == [False], "an edge is redundant without any run"
    await retime(await record("chain", 25), 2.0)
    told = (await client.get("/api/v1/flows/chain/recommendations", params={"level": "basic"})).json()
    assert {(each["kind"], each["is_applied"]) for each in told["recommendations"]} == {
        ("timeout", True),
        ("redundant_edge", False),
    }
    tried = await client.post("/api/v1/flows/chain/optimize", json={"level": "basic"})
    assert (tried.status_code, tried.json()["standing"], len(tried.json()["changes"])) == (201, "applied", 4)
    assert (await client.post("/api/v1/flows/chain/optimize", json={"level": "basic"})).status_code == 409
    assert (await client.get("/api/v1/flows/chain")).json()["version"] == 2
    assert (await client.get("/api/v1/flows/nobody/recommendations")).status_code == 404
    assert (await client.post("/api/v1/flows/chain/optimize", json={"level": "most"})).status_code in (400, 422)


def test_a_flow_is_optimized_by_command(commands: CommandLine, database_url: str) -> None:
    async def prepare() -> None:
        await Database.initialize(database_url)
        await save(chain())
        await retime(await record("chain", 25), 2.0)
        await Database.close()

    asyncio.run(prepare())
    shown = commands("si-cli", "flow", "optimize", "chain", "--level", "basic")
    assert "25 executions, 25 looked at; level basic" in shown.out
    assert "99 of 100 calls" in shown.words
    told = commands.json("si-cli", "flow", "optimize", "chain", "--level", "basic")
    assert told["confidence_threshold"] == 0.7
    assert "has a new version with 4 changes" in commands("si-cli", "flow", "optimize", "chain", "--apply").out
    wrong = commands("si-cli", "flow", "optimize", "chain", "--level", "most")
    assert (wrong.code, "give one of basic, advanced, aggressive" in wrong.err) == (2, True)
    assert commands("si-cli", "flow", "optimize", "nobody").code == 1
