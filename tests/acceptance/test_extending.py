"""Changes that touch what ARCHITECTURE.md says they touch ("Where a change goes"), and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from soliplex.ingester import ArtifactType, Document, store_artifact
from soliplex.ingester.lib import step_types
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.fetching import SCHEMES
from soliplex.ingester.lib.fetching.wanted import Wanted
from soliplex.ingester.lib.models import WorkflowRun
from soliplex.ingester.lib.step_types import STEP_TYPES, StepType
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.operations import cancel_run_group
from soliplex.ingester.lib.wf.runner import WorkerConfig
from tests.support.command_line import CommandLine
from tests.support.extensions import extensions_apart


async def count_words(doc: Document) -> dict[str, int]:
    """The handler of a new type of steps."""
    async with get_artifacts().document_file(doc.hash) as path:
        counted = {"words": len(path.read_text().split())}
    await store_artifact(doc.hash, ArtifactType.CUSTOM, counted)
    return counted


async def read_words(wanted: Wanted) -> AsyncGenerator[bytes]:
    """A new scheme: the words stand in the address itself."""
    yield " ".join(wanted.parts.netloc.split(".")).encode()


async def give_up(workflow_run: WorkflowRun) -> None:
    """Have the group cancelled to which this step belongs."""
    assert workflow_run.run_group_id is not None
    await cancel_run_group(workflow_run.run_group_id)
    await asyncio.Event().wait()  # the worker stops this step, as it would any other


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The new type is a line in its table, with a pool of its own; workflow files name the handlers."""
    new = StepType(name="count", makes=(ArtifactType.CUSTOM,), slots=lambda settings: settings.worker_task_count + 1)
    monkeypatch.setattr(step_types, "STEP_TYPES", (*STEP_TYPES, new))
    monkeypatch.setitem(SCHEMES, "words", read_words)  # pyright: ignore[reportArgumentType]  a mapping that is a dict
    folder = tmp_path / "workflows"
    folder.mkdir()
    ingest = "ingest: {name: fetch, method: soliplex.ingester.lib.workflow.ingest_document}"
    steps = {"counting": f"count: {{name: count, method: {__name__}.count_words, retries: 1}}"}
    steps["giving_up"] = f"count: {{name: count, method: {__name__}.give_up, retries: 1}}"
    steps["fetching"] = ingest
    steps["fetching_and_counting"] = f"{ingest}\n  {steps['counting']}"
    for name, step in steps.items():
        (folder / f"{name}.yaml").write_text(f"id: {name}\nitem_steps:\n  {step}\n")
    monkeypatch.setenv("WORKFLOW_DIR", str(folder))
    monkeypatch.setenv("DEFAULT_WORKFLOW_ID", "counting")
    get_settings.cache_clear()
    with extensions_apart():
        yield


def test_a_new_type_of_steps_is_a_handler_and_a_line_and_has_its_own_pool(
    commands: CommandLine, counting: None, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("one two three")
    ingested = commands("si-cli", "ingest", str(tmp_path / "a.txt"), "--workflow", "counting")
    assert (ingested.code, "1 document ingested" in ingested.out) == (0, True), ingested.err
    assert commands.json("si-diag", "run", "1")["steps"][0]["output"] == {"words": 3}
    assert WorkerConfig().consumers["count"] == get_settings().worker_task_count + 1


def test_a_new_scheme_is_a_function_and_a_line(commands: CommandLine, counting: None) -> None:
    fetched = commands("si-cli", "fetch", "words://one.two", "--workflow", "fetching")
    assert (fetched.code, fetched.out) == (0, "1 document fetched and ingested (run group 1)\n"), fetched.err
    assert commands.json("si-diag", "run", "2")["steps"][0]["output"] == {"words": 2}
    assert "words://" in commands("si-cli", "fetch", "nix://a", "--workflow", "fetching").err


def test_a_step_of_a_new_type_may_follow_the_one_that_fetches(commands: CommandLine, counting: None) -> None:
    fetched = commands("si-cli", "fetch", "words://one.two", "--workflow", "fetching_and_counting")
    assert (fetched.code, fetched.out) == (0, "1 document fetched and ingested (run group 1)\n"), fetched.err
    assert commands.json("si-diag", "run", "2")["steps"][-1]["output"] == {"words": 2}


def test_what_was_cancelled_is_not_said_to_be_done(commands: CommandLine, counting: None, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    for content in ("one", "one two"):
        file.write_text(content)
        assert commands("si-cli", "ingest", str(file)).code == 0
    back = commands("si-cli", "rollback", str(file), "1", "--workflow", "giving_up")
    assert (back.code, "✗ 1 run cancelled" in back.out, "Searches find it now" in back.out) == (1, True, False)


def test_a_fetched_document_whose_run_was_cancelled_is_not_said_to_be_done(
    commands: CommandLine, counting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEFAULT_WORKFLOW_ID", "giving_up")
    get_settings.cache_clear()
    fetched = commands("si-cli", "fetch", "words://one.two", "--workflow", "fetching")
    assert (fetched.code, fetched.out) == (1, "0 documents fetched and ingested, 1 failed or cancelled (run group 1)\n")
