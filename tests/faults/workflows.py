"""The workflows that the tests of faults run, and their handlers.

Each handler notes its calls in a journal, a file that all processes append to: so executions can be counted whatever
became of the process that made them. Steps have one attempt unless the test is about attempts: a fault that the engine
wrongly counts as an attempt fails the step.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import os
import re
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.lib.models import RunGroup, RunStep, WorkflowRun
from soliplex.ingester.lib.wf.definitions import workflow_from_mapping
from soliplex.ingester.lib.wf.registry import Registry
from soliplex.ingester.lib.wf.waiting import Wait

FOLDER: Final = "FAULTS_FOLDER"
"""The variable of the environment that names the folder of a test's journal."""
MIB: Final = 2**20

_HERE: Final = __name__
_GROUP_END: Final = {"group_end": [{"name": "ended", "method": f"{_HERE}.group_ended"}]}
_TWO_ATTEMPTS: Final = {"retries": 2, "backoff": 0, "timeout": 0.5}

WORKFLOWS: Final[tuple[dict[str, Any], ...]] = (
    {
        "id": "line",
        "item_steps": {
            "first": {"method": f"{_HERE}.use_resource"},
            "second": {"method": f"{_HERE}.note"},
            "third": {"method": f"{_HERE}.note"},
        },
        "lifecycle_events": _GROUP_END,
    },
    {
        "id": "load",
        "item_steps": {
            "first": {"method": f"{_HERE}.take_a_moment"},
            "second": {"method": f"{_HERE}.take_a_moment"},
            "third": {"method": f"{_HERE}.take_a_moment"},
        },
        "lifecycle_events": {**_GROUP_END, "item_end": [{"name": "item", "method": f"{_HERE}.item_ended"}]},
    },
    {
        "id": "waiting",
        "item_steps": {"wait": {"method": f"{_HERE}.wait_for_go"}, "after": {"method": f"{_HERE}.note"}},
        "lifecycle_events": _GROUP_END,
    },
    {
        "id": "isolated",
        "item_steps": {
            "wait": {"method": f"{_HERE}.wait_for_go_in_a_process", "isolation": "process"},
            "after": {"method": f"{_HERE}.note"},
        },
        "lifecycle_events": _GROUP_END,
    },
    {
        "id": "threaded",
        "item_steps": {"wait": {"method": f"{_HERE}.wait_for_go_in_a_process"}},
        "lifecycle_events": _GROUP_END,
    },
    {"id": "asking", "item_steps": {"ask": {"method": f"{_HERE}.ask"}, "after": {"method": f"{_HERE}.note"}}},
    {"id": "slow", "item_steps": {"take_long": {"method": f"{_HERE}.take_long"}}, "lifecycle_events": _GROUP_END},
    {"id": "sleeper", "item_steps": {"sleeper": {"method": f"{_HERE}.sleep_in_c", **_TWO_ATTEMPTS}}},
    {
        "id": "backtracker",
        "item_steps": {
            # Time enough to start a process and import this module: the second attempt has to.
            "backtracker": {
                "method": f"{_HERE}.backtrack_in_c",
                "isolation": "process",
                **_TWO_ATTEMPTS,
                "timeout": 5,
            }
        },
    },
    {
        "id": "crasher",
        "item_steps": {
            "crasher": {"method": f"{_HERE}.segfault", "isolation": "process", **_TWO_ATTEMPTS, "timeout": 30}
        },
    },
    {
        "id": "hoarder",
        "item_steps": {
            "hoarder": {"method": f"{_HERE}.hoard_memory", "isolation": "process", **_TWO_ATTEMPTS, "timeout": 30}
        },
    },
    {"id": "stubborn", "item_steps": {"stubborn": {"method": f"{_HERE}.ignore_cancellation"}}},
    {"id": "grouper", "item_steps": {"grouper": {"method": f"{_HERE}.fail_in_a_group", **_TWO_ATTEMPTS}}},
    {"id": "quitter", "item_steps": {"quitter": {"method": f"{_HERE}.cancel_itself", **_TWO_ATTEMPTS}}},
)


def make_registry() -> Registry:
    registry = Registry(None, None)
    for workflow in WORKFLOWS:
        registry.register(workflow_from_mapping(workflow))
    return registry


def folder() -> Path:
    return Path(os.environ[FOLDER])


def write(what: str, run_id: int, step: str, attempt: int) -> None:
    """Append a line to the journal. One write, so that lines of several processes do not mix."""
    journal = os.open(folder() / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(journal, f"{what} {run_id} {step} {attempt} {os.getpid()}\n".encode())
    finally:
        os.close(journal)


def write_call(run_step: RunStep, what: str = "call") -> None:
    write(what, run_step.workflow_run_id, run_step.workflow_step_name, run_step.retry + 1)


async def note(run_step: RunStep, input: dict[str, Any]) -> list[str]:  # noqa: A002  the name by which the engine knows it
    """Do nothing. The input is asked for so that the engine has to read the database for every call."""
    write_call(run_step)
    return sorted(input)


async def ask(run_step: RunStep, state: str | None, answer: Any) -> Any:
    """Wait for a signal, and give what it brought."""
    write_call(run_step)
    return Wait(f"go-{run_step.workflow_run_id}", state="asked") if state is None else answer


async def take_a_moment(run_step: RunStep, input: dict[str, Any]) -> list[str]:  # noqa: A002  as in `note`
    write_call(run_step)
    await asyncio.sleep(0.01)
    return sorted(input)


async def take_long(run_step: RunStep) -> None:
    """Take longer than several looks at who has died."""
    write_call(run_step)
    await asyncio.sleep(1.5)


async def use_resource(run_step: RunStep) -> None:
    """Use what nobody else may use at the same time, and tell if somebody does."""
    with _held(run_step.resource_key or str(run_step.id)) as is_alone:
        write_call(run_step, "call" if is_alone else "overlap")
        await asyncio.sleep(0.02)


@contextlib.contextmanager
def _held(name: str) -> Generator[bool]:
    file = os.open(folder() / f"{name}.resource", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(file)


async def wait_for_go(run_step: RunStep) -> None:
    write_call(run_step)
    while not (folder() / "go").exists():  # noqa: ASYNC110  the file is made by another process
        await asyncio.sleep(0.005)
    write_call(run_step, "end")


def wait_for_go_in_a_process(run_step: RunStep) -> None:
    write_call(run_step)
    while not (folder() / "go").exists():
        time.sleep(0.005)
    write_call(run_step, "end")


def sleep_in_c(run_step: RunStep) -> None:
    """Hold a thread where nothing can interrupt it, at the first attempt."""
    write_call(run_step)
    if run_step.retry == 0:
        time.sleep(1000)


def backtrack_in_c(run_step: RunStep) -> None:
    write_call(run_step)
    if run_step.retry == 0:
        re.match(r"(a|a)*b", "a" * 60)


def segfault(run_step: RunStep) -> None:
    write_call(run_step)
    if run_step.retry == 0:
        ctypes.string_at(0)


def hoard_memory(run_step: RunStep) -> int:
    write_call(run_step)
    hoard: list[bytearray] = []
    while run_step.retry == 0:
        hoard.append(bytearray(b"x") * (16 * MIB))
    return len(hoard)


async def cancel_itself(run_step: RunStep) -> None:
    """Let a cancellation escape that nobody asked for, as code does that awaits a task it has cancelled."""
    write_call(run_step)
    if run_step.retry == 0:
        task = asyncio.create_task(asyncio.sleep(1000))
        task.cancel()
        await task


async def ignore_cancellation(run_step: RunStep) -> None:
    write_call(run_step)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(1000)


async def fail_in_a_group(run_step: RunStep) -> None:
    """Fail where the task that runs the handler is cancelled by its own doing, and must know that it was."""
    write_call(run_step)
    async with asyncio.TaskGroup() as group:
        if run_step.retry == 0:
            group.create_task(_fail())
        await asyncio.sleep(0.05)


async def _fail() -> None:
    raise ValueError("as expected")


async def group_ended(run_group: RunGroup, attempt: int) -> None:
    write("group_end", run_group.id or 0, "-", attempt)


async def item_ended(workflow_run: WorkflowRun, attempt: int) -> None:
    write("item_end", workflow_run.id or 0, "-", attempt)
