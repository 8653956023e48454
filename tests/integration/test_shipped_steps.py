"""Goals in plain sentences, with real files and receivers: what is said to be done is done, or the goal has failed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from soliplex.ingester import Executor, GoalResult, Orchestrator
from soliplex.ingester.goals.decomposers import by_rules
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.workflow import parsing
from tests.support.engine import rows_of
from tests.support.harmful_parsers import METHOD
from tests.support.receiver import Answer, Receiver, receiver
from tests.support.segmenting import THREE


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Documents go through a workflow that takes what it is given, and needs no model."""
    for name, value in {
        "ALLOW_PRIVATE_ADDRESSES": "true",
        "WORKFLOW_DIR": str(Path("config/workflows").absolute()),
        "PARAM_DIR": str(Path("config/params").absolute()),
        "DEFAULT_WORKFLOW_ID": "test_wf",
        "DEFAULT_PARAM_ID": "test_base",
        "WEBHOOK_FIRST_DELAY_SECONDS": "0.01",
        "WEBHOOK_LONGEST_DELAY_SECONDS": "0.02",
    }.items():
        monkeypatch.setenv(name, value)
    get_settings.cache_clear()
    monkeypatch.setattr(parsing, "_PARSE", METHOD)
    use_registry(None)
    yield
    use_registry(None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the process is when the goal is said."""
    found = tmp_path / "here"
    (found / "docs").mkdir(parents=True)
    monkeypatch.chdir(found)
    return found


@pytest.fixture
async def hooks() -> AsyncIterator[Receiver]:
    async with receiver() as hooks:
        yield hooks


async def reached(goal: str) -> GoalResult:
    return await Orchestrator.execute_goal(goal, by_rules, timeout=300)


async def test_what_was_ingested_and_cut_is_told_to_the_receiver_before_the_goal_is_reached(
    database: None, folder: Path, hooks: Receiver
) -> None:
    (folder / "docs" / "harbours.md").write_bytes(THREE)
    (folder / "docs" / "sea.TXT").write_text("The sea is wide.\n")
    hooks.answers += [Answer(503)]
    result = await reached(f"ingest ./docs, segment the Markdown files, then tell {hooks.url}")
    assert (result.status, result.error) == ("completed", None)
    (delivery,) = hooks.taken
    told = delivery.content["outputs"]
    assert {name: told["ingest"][name] for name in ("found", "new", "completed", "failed")} == {
        "found": 2,
        "new": 2,
        "completed": 2,
        "failed": 0,
    }
    assert (told["segment"]["files"], told["segment"]["failed"]) == (1, 0)
    assert told["segment"]["articles"] > 1
    assert result.output["webhook"]["url"] == hooks.url
    again = await reached("ingest ./docs")
    assert (again.status, again.output["ingest"]["unchanged"], again.output["ingest"]["completed"]) == (
        "completed",
        2,
        0,
    )


async def test_a_receiver_that_cannot_be_told_fails_the_goal(database: None, folder: Path, hooks: Receiver) -> None:
    hooks.answer = lambda delivery: Answer(410)
    result = await reached(f"tell {hooks.url}")
    assert result.status == "failed"
    assert f"{hooks.url} could not be told: the receiver is gone for good; see `si-cli webhooks show 1`" in (
        result.error or ""
    )


@pytest.mark.parametrize(
    ("goal", "problem"),
    [
        ("ingest ./docs", "holds nothing to ingest; left out: 1 hidden"),
        ("ingest the PDFs in ./docs", "holds nothing to ingest (*.pdf)"),
        ("segment the PDFs in ./docs", "holds nothing to segment (*.pdf)"),
        ("parse ./docs", "holds nothing to ingest"),
        ("ingest ./nowhere", "does not exist"),
        ("segment the PDFs in ./docs/.hidden", "is no such file (*.pdf)"),
    ],
)
async def test_where_there_is_nothing_to_do_the_goal_fails_and_says_so(
    database: None, folder: Path, goal: str, problem: str
) -> None:
    (folder / "docs" / ".hidden").write_text("hidden")
    result = await reached(goal)
    assert (result.status, result.output) == ("failed", None)
    assert problem in (result.error or "")


async def test_what_could_not_be_ingested_before_is_no_success_the_second_time(
    database: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "docs" / "sea.txt").write_text("The sea is wide.\n")
    monkeypatch.setenv("DEFAULT_WORKFLOW_ID", "test_wf_fail")
    get_settings.cache_clear()
    first, second = await reached("ingest ./docs"), await reached("ingest ./docs")
    for result in (first, second):
        assert result.status == "failed"
        assert "none of 1 files could be ingested" in (result.error or "")


async def test_a_path_is_meant_from_where_the_goal_was_said_whichever_worker_is_asked(
    database: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "docs" / "sea.txt").write_text("The sea is wide.\n")
    run_id = await Orchestrator.start_goal("ingest docs/../docs", by_rules)
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    while (await Executor.status(run_id)).status == "started":
        await Executor.execute_pending_tasks()
    result = await Orchestrator.goal_status(run_id)
    assert (result.status, result.output["ingest"]["found"]) == ("completed", 1)
    assert result.graph is not None
    assert result.graph["tasks"]["ingest"]["params"] == {"path": os.fspath(folder / "docs")}
    assert await rows_of("SELECT uri FROM documenturi") == [((folder / "docs" / "sea.txt").as_posix(),)]
