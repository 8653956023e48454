"""Handlers for tests of the worker, in the shapes handlers may have. They note what they saw in `seen`."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from soliplex.ingester.lib.models import ResourceLock, RunStep, StepConfig, WorkflowRun, get_session
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.handlers import StepContext, Weights, batch_handler
from soliplex.ingester.lib.wf.waiting import Again, Subflow, Wait
from soliplex.ingester.lib.wf.work import ClaimedStep

seen: Final[list[Any]] = []
counts: Final[Counter[str]] = Counter()
started: Final[dict[str, asyncio.Event]] = {}
gates: Final[dict[str, asyncio.Event]] = {}
turns: Final[list[asyncio.Event]] = []


def reset() -> None:
    seen.clear()
    counts.clear()
    started.clear()
    gates.clear()
    turns.clear()


def gate(name: str) -> tuple[asyncio.Event, asyncio.Event]:
    """An event that says a handler began, and one that lets it go on."""
    started[name] = asyncio.Event()
    gates[name] = asyncio.Event()
    return started[name], gates[name]


async def counting(state: int | None) -> Again | int:
    """Ask for another call, until there were five."""
    calls = (state or 0) + 1
    return calls if calls == 5 else Again(calls)


async def echo(input: Any) -> Any:  # noqa: A002  the name that handlers ask for
    """What it was given."""
    return input


async def calls(state: dict[str, int] | None) -> dict[str, int]:
    """How often it was called, if what it gave last is its state."""
    return {"calls": (state or {"calls": 0})["calls"] + 1}


async def in_a_subflow(input: dict[str, Any], state: str | None, answer: Any) -> Subflow | dict[str, Any]:  # noqa: A002
    """Have the workflow that the input names do the work."""
    return {"answer": answer} if state else Subflow(input["workflow"], {"want": 1}, state="begun")


async def asking(run_id: int, state: str | None, answer: Any) -> Wait | dict[str, Any]:
    """Wait for somebody's answer."""
    return {"answer": answer} if state else Wait(f"answer-{run_id}", state="asked")


async def impatient(state: str | None, answer: Any) -> Wait | dict[str, Any]:
    return {"answer": answer} if state else Wait("never", timeout=0.02, state="asked")


async def wrong_wait() -> Wait:
    return Wait("")


def asking_elsewhere(run_id: int, state: str | None, answer: Any) -> Wait | dict[str, Any]:
    """As `asking`, in a process of its own."""
    return {"answer": answer} if state else Wait(f"answer-{run_id}", state="asked")


async def nothing() -> None:
    counts["nothing"] += 1


def plain(doc_hash: str) -> dict[str, Any]:
    """A plain function: it runs in a thread."""
    return {"doc": doc_hash, "in_main_thread": threading.current_thread() is threading.main_thread()}


async def documented(
    run_step: RunStep, workflow_run: WorkflowRun, step_params: dict[str, Any], workflow_def: WorkflowDefinition
) -> dict[str, Any]:
    seen.append((run_step, workflow_run, workflow_def))
    return {"step": run_step.workflow_step_name, "params": step_params, "run": workflow_run.id}


async def by_name(step_config: StepConfig, run_group: Any, batch_id: int | None, colour: str, size: int = 3) -> Any:
    return [step_config.step_type, run_group.id, batch_id, colour, size]


async def anything(**everything: Any) -> list[str]:
    return sorted(everything)


async def unknown_wish(moon: str) -> None:
    seen.append(moon)


async def flaky() -> str:
    """Fails twice, then succeeds."""
    counts["flaky"] += 1
    if counts["flaky"] < 3:
        raise ConnectionError("the service is away")
    return "done"


async def hopeless() -> None:
    counts["hopeless"] += 1
    raise PermanentError("the file is encrypted")


async def waits(doc_hash: str) -> None:
    """Waits until the test lets it go on."""
    started[doc_hash].set()
    try:
        await gates[doc_hash].wait()
    except asyncio.CancelledError:
        counts["cancelled"] += 1
        raise


async def in_turn(workflow_run: WorkflowRun, run_step: RunStep) -> None:
    """Notes that it has begun, and waits until the test lets it go on."""
    turns.append(asyncio.Event())
    seen.append((workflow_run.run_group_id, run_step.workflow_step_name))
    await turns[-1].wait()


async def forever() -> None:
    counts["forever"] += 1
    await asyncio.Event().wait()


async def gives_list() -> list[Any]:
    return [1, "two", None, {"three": 3}]


async def doubles(item: Any, input: dict[str, Any]) -> Any:  # noqa: A002  the name handlers ask for
    counts["doubles"] += 1
    return [item, sorted(input)]


async def joins(input: dict[str, Any]) -> Any:  # noqa: A002  the name handlers ask for
    return input


async def not_json() -> Any:
    return {"when": object()}


async def not_a_number() -> float:
    return float("nan")


async def nul() -> str:
    return "a\x00b"


@batch_handler(limit=10)
async def in_batches(batch: list[StepContext]) -> list[Any]:
    seen.append([context.step.id for context in batch])
    return [ValueError("bad") if context["doc_hash"].endswith("-3") else context["doc_hash"] for context in batch]


@batch_handler(limit=10)
async def first_kind(batch: list[StepContext]) -> list[Any]:
    return ["first" for _ in batch]


@batch_handler(limit=10)
async def second_kind(batch: list[StepContext]) -> list[Any]:
    return ["second" for _ in batch]


@batch_handler(limit=10, wants={"run_group"})
async def choosy(batch: list[StepContext]) -> list[Any]:
    return [sorted(context.arguments) for context in batch]


@batch_handler(limit=10)
async def too_few(batch: list[StepContext]) -> list[Any]:
    return batch[1:]


async def under_lock(run_step: RunStep) -> int:
    """Sees that the lock on its resource is held, and that it is alone."""
    counts["inside"] += 1
    counts["most"] = max(counts["most"], counts["inside"])
    async with get_session() as session:
        lock = await session.get(ResourceLock, run_step.resource_key)
    await asyncio.sleep(0)
    counts["inside"] -= 1
    seen.append(lock is not None and lock.holder_id == run_step.lease_token)
    return counts["most"]


async def on_event(
    event: str, workflow_run_id: int | None, step_id: int | None, error: str | None, note: str = ""
) -> None:
    seen.append((str(event), workflow_run_id, step_id is not None, error, note))


async def flaky_event(event: str) -> None:
    counts[event] += 1
    if counts[event] < 2:
        raise ConnectionError("try again")


async def slow_event() -> None:
    started["event"].set()
    await gates["event"].wait()


GIANT: Final = "sha256-0"


async def weights_of(steps: Sequence[ClaimedStep]) -> list[int]:
    """The giant weighs more than a call may, every other step 1. Waits where a test has a gate for it."""
    if "weighing" in gates:
        started["weighing"].set()
        await gates["weighing"].wait()
    return [100 if step.run["doc_id"] == GIANT else 1 for step in steps]


@batch_handler(limit=10, weights=Weights(weights_of, most=8))
async def by_weight(batch: list[StepContext]) -> list[Any]:
    """Waits with the giant, if it is there, until the test lets it go on."""
    seen.append([context["doc_hash"] for context in batch])
    if any(context["doc_hash"] == GIANT for context in batch):
        started[GIANT].set()
        await gates[GIANT].wait()
    return [None for _ in batch]


async def no_weights(steps: Sequence[ClaimedStep]) -> list[int]:
    del steps
    raise ValueError("no scales")


@batch_handler(limit=10, weights=Weights(no_weights, most=8))
async def not_weighed(batch: list[StepContext]) -> list[Any]:
    seen.append([context["doc_hash"] for context in batch])
    return [None for _ in batch]


async def tells_its_time(time_limit: float | None) -> float | None:
    return time_limit


def tells_progress(progress: Any) -> str:
    """Says how far it has come, from the thread it runs in."""
    for number in range(100):
        progress(number / 100, f"page {number}")
    progress(1.0, "the last page")
    return "done"


def tells_nonsense(progress: Any) -> None:
    progress(7.5)


async def progress_and_wait(progress: Any) -> None:
    progress(0.5, "half")
    started["progress"].set()
    await gates["progress"].wait()


def much(size: int = 100_000) -> dict[str, Any]:
    """What is too large for a row."""
    return {"text": "ä" * size, "pages": 12}


async def gives_much() -> dict[str, Any]:
    return much()


async def gives_large_items() -> list[dict[str, Any]]:
    return [much(), {"text": "b"}, much()]


async def measures(input: dict[str, Any]) -> dict[str, int]:  # noqa: A002  what handlers ask for
    """How long the texts are that it is given, by the names of the steps that gave them."""
    return {name: len(each["text"]) for name, each in input.items() if isinstance(each, dict)}


async def measures_item(item: dict[str, Any]) -> int:
    return len(item["text"])


async def gives_back_item(item: dict[str, Any]) -> dict[str, Any]:
    return item


async def measures_list(input: dict[str, Any]) -> list[int]:  # noqa: A002  what handlers ask for
    return [len(each["text"]) for each in input["m"]]


async def grows(state: list[dict[str, Any]] | None) -> Again | int:
    """Asks for four more calls, each with a state that is too large for a row."""
    kept = [*(state or []), much()]
    return sum(len(each["text"]) for each in kept) if len(kept) > 4 else Again(kept)


async def asks_another(answer: dict[str, Any] | None) -> Subflow | int:
    """Starts a run with an input that is too large for a row, and measures what that gives."""
    return Subflow("gives_back", much()) if answer is None else len(answer["only"]["text"])


async def gives_back(input: dict[str, Any]) -> dict[str, Any]:  # noqa: A002  what handlers ask for
    return input


async def forges() -> dict[str, Any]:
    return {"deep": [{":payload": 1}]}


async def for_ever() -> Again:
    return Again()
