"""Whatever a loop of a worker raises, the worker goes on; if a loop ends all the same, the worker says so and ends."""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf import presence
from soliplex.ingester.lib.wf.errors import WorkerLost
from soliplex.ingester.lib.wf.finisher import Finisher
from soliplex.ingester.lib.wf.lifecycle import LifecycleBus
from soliplex.ingester.lib.wf.metrics import MemoryMetrics
from soliplex.ingester.lib.wf.pools import ConsumerPool
from soliplex.ingester.lib.wf.runner import Worker, WorkerConfig, at_work
from tests.support.engine import rows_of
from tests.support.faults import LONG, Fleet, eventually
from tests.support.serving import COMMAND, PATIENCE, serving

SOON: Final = 0.05
OF_ALL: Final = frozenset(
    {
        "claim *",
        "slot *",
        "finisher",
        "lifecycle",
        "presence",
        "check in",
        "refresh locks",
        "look around",
        "lost tasks",
        "reap silent",
        "sweep locks",
        "give memory back",
        "urgent",
        "signals",
        "deadlines",
        "orphans",
        "abandoned",
        "prune",
        "schedules",
        "progress",
    }
)
OF_POSTGRES: Final = frozenset({"notify"})


class Mortal(BaseException):
    """Nothing that a guard against errors catches."""


class RaisesIn:
    """Raises in the first rounds of one duty, or of all."""

    def __init__(self, duty: str | None, error: type[BaseException], times: int = 2) -> None:
        self._duty = duty
        self._error = error
        self._left: dict[str, int] = {}
        self._times = times

    async def reach(self, point: str) -> None:
        kind, _, name = point.partition(" of ")
        if kind == "round" and self._duty in {None, name}:
            left = self._left.setdefault(name, self._times)
            if left:
                self._left[name] = left - 1
                raise self._error(f"in {name}")

    @property
    def raised(self) -> set[str]:
        return {name for name, left in self._left.items() if left < self._times}


def config() -> WorkerConfig:
    return WorkerConfig(
        consumers={"*": 3}, checkin_interval=SOON, liveness_interval=SOON, lock_ttl=2 * SOON, checkin_timeout=4 * SOON
    )


def worker_with(probe: RaisesIn | None, metrics: MemoryMetrics | None = None) -> Worker:
    return Worker(config(), worker_id="victim", probe=probe, metrics=metrics)


def names_of_duties() -> frozenset[str]:
    return OF_ALL | OF_POSTGRES if Database.path() is None else OF_ALL


async def test_every_task_of_a_worker_is_a_duty(database: type[Database], folder: Path) -> None:
    before = asyncio.all_tasks()
    async with at_work(worker_with(None)) as worker:
        assert set(worker.duties.names) == names_of_duties()
        # A transaction on SQLite may have a task for as long as it lasts.
        await eventually(lambda: frozenset(asyncio.all_tasks() - before) == worker.duties.tasks, "no task but duties")
    assert worker.duties.tasks == frozenset()


async def test_errors_in_the_rounds_of_all_duties_stop_nothing(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soliplex.ingester.lib.wf.runner.SWEEP_LOCKS_EVERY", SOON)
    monkeypatch.setattr("soliplex.ingester.lib.wf.runner.GIVE_MEMORY_BACK_EVERY", SOON)
    monkeypatch.setattr("soliplex.ingester.lib.wf.runner.PRUNE_EVERY", SOON)
    monkeypatch.setattr("soliplex.ingester.lib.wf.runner.START_DUE_EVERY", SOON)
    probe = RaisesIn(None, ValueError)
    async with at_work(worker_with(probe)) as worker:
        await eventually(lambda: frozenset(probe.raised) == names_of_duties(), "every duty has raised")
        await fleet.create("line", 5)
        await fleet.everything_ends()
        assert worker.troubles == []
        assert set(worker.duties.names) == names_of_duties()
    assert fleet.journal.executions().total() == 15


INNER_PARTS: Final[list[tuple[Any, str]]] = [
    (ConsumerPool, "_accept"),
    (ConsumerPool, "_next"),
    (ConsumerPool, "_note_duration"),
    (ConsumerPool, "_wanted"),
    (ConsumerPool, "follow"),
    (ConsumerPool, "hear_of"),
    (ConsumerPool, "look_again"),
    (Finisher, "_record"),
    (LifecycleBus, "_start"),
    (Worker, "_on_claimed"),
    (Worker, "_on_finished"),
    (Worker, "_following"),
    (MemoryMetrics, "incr"),
    (MemoryMetrics, "observe"),
]


@pytest.mark.parametrize(("owner", "name"), INNER_PARTS, ids=[f"{each.__name__}.{name}" for each, name in INNER_PARTS])
async def test_an_error_in_any_part_loses_no_step(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    original = getattr(owner, name)
    failures = 3

    def stumble(*arguments: Any, **options: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise ValueError(f"in {name}")
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, stumble)
    async with at_work(worker_with(None, MemoryMetrics())) as worker:
        for _ in range(
            20
        ):  # which parts a few steps need is a matter of chance: of who is first to see that they are ready
            await fleet.create("line", 5)
            await fleet.everything_ends()
            if failures < 3:
                break
        assert worker.lost is None
    assert failures < 3, "the part was never called"


async def test_words_of_strangers_on_the_channel_of_work_wake_and_harm_nobody(
    database: type[Database], folder: Path
) -> None:
    if Database.path() is not None:
        pytest.skip("SQLite has no channel")
    for payload in ("not json", "{}", "7", '["a", 1]'):
        assert presence._types_in(payload) is None  # pyright: ignore[reportPrivateUsage]  its bounds
    assert presence._types_in('["parse"]') == ["parse"]  # pyright: ignore[reportPrivateUsage]  its bounds


@pytest.mark.parametrize("duty", sorted(OF_ALL - {"sweep locks", "give memory back"}))
async def test_a_worker_that_has_lost_a_loop_says_so_stops_and_leaves_its_work_to_others(
    fleet: Fleet, duty: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = worker_with(RaisesIn(duty, Mortal, times=1))
    await fleet.create("line", 3)
    with pytest.raises(WorkerLost, match=duty.replace("*", r"\*")):
        async with at_work(worker, stop_timeout=1):
            await asyncio.wait_for(asyncio.Event().wait(), LONG)
    assert any(duty in trouble for trouble in worker.troubles)
    assert any(f"{duty!r} has ended" in record.getMessage() for record in caplog.records)
    assert await rows_of("SELECT id FROM workercheckin") == []
    assert await rows_of("SELECT id FROM runstep WHERE status = 'RUNNING'") == []
    async with fleet.helper():
        await fleet.everything_ends()


async def test_a_block_at_work_keeps_its_own_errors_and_cancellations(database: type[Database], folder: Path) -> None:
    with pytest.raises(ValueError, match="mine"):
        async with at_work(worker_with(None)):
            raise ValueError("mine")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0), at_work(worker_with(None)):
            await asyncio.Event().wait()


LETHAL: Final = """
from soliplex.ingester.lib.wf.finisher import Finisher

class Mortal(BaseException): ...

async def _record(*_): raise Mortal("out of order")

async def nothing(): Finisher._record = _record
"""
FLOW: Final = "id: lethal\nname: lethal\nitem_steps:\n  step:\n    method: lethal_handlers.nothing\n"
PARAMETERS: Final = "id: none\nname: none\nconfig: {}\n"


def lethal_environment(folder: Path) -> dict[str, str]:
    """Settings of a process in which the first step that is executed ends the finisher."""
    for path, text in {
        "lethal_handlers.py": LETHAL,
        "workflows/lethal.yaml": FLOW,
        "params/none.yaml": PARAMETERS,
    }.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return {
        "PYTHONPATH": str(folder),
        "WORKFLOW_DIR": str(folder / "workflows"),
        "PARAM_DIR": str(folder / "params"),
        "DEFAULT_WORKFLOW_ID": "lethal",
        "DEFAULT_PARAM_ID": "none",
    }


def test_a_server_whose_worker_is_lost_fails_its_health_check_and_ends_with_1(tmp_path: Path) -> None:
    with serving(tmp_path, environment=lethal_environment(tmp_path)) as server, server.client() as client:
        batch_id = client.post("/api/v1/batch/", data={"source": "shelf", "name": "Tuesday"}).json()["batch_id"]
        upload = {"source_uri": "/a", "source": "shelf", "batch_id": batch_id}
        client.post("/api/v1/document/ingest-document", files={"file": ("a.txt", b"text")}, data=upload)
        with suppress(httpx.TransportError):  # it may be gone before it has answered
            client.post(
                "/api/v1/batch/start-workflows", data={"batch_id": batch_id, "workflow_definition_id": "lethal"}
            )
        assert server.process.wait(PATIENCE) == 1
        assert any("'finisher' has ended" in line for line in server.lines())
        # The worker at hand, as a supervisor would start it again; it finds the same step, and ends in the same way.
        command = [*COMMAND[:-1], "worker"]
        environment = os.environ | lethal_environment(tmp_path) | {"DATA_DIR": str(tmp_path / "data")}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 1, ended.stderr
    assert "error: worker" in ended.stderr
    assert "finisher" in ended.stderr
