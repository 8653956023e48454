"""One attempt of a step, or of a few that share a call: load what the handler asks for, call it, say what came of it.

An attempt never raises for what a handler does: every outcome is a result to be recorded. Only cancellation passes
through.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import random
from typing import Any, Final, Protocol

from soliplex.ingester.lib.errors import ConfigurationError, NotFoundError
from soliplex.ingester.lib.models import Database, Isolation
from soliplex.ingester.lib.models.transactions import json_of, single
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.deadlines import LONG, Deadlines
from soliplex.ingester.lib.wf.definitions import StepDefinition
from soliplex.ingester.lib.wf.errors import DefinitionError, PermanentError, PoolStopped
from soliplex.ingester.lib.wf.handlers import Handler, StepContext, arguments_at_hand, arguments_for, resolve
from soliplex.ingester.lib.wf.isolation import ProcessPool, run_inline
from soliplex.ingester.lib.wf.links import insist
from soliplex.ingester.lib.wf.probes import NoProbe, Probe
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.work import ClaimedStep, Completed, Errored, Expanded, Released, Result

LONGEST_MESSAGE: Final = 2_000
LONGEST_TRACEBACK: Final = 20_000
_GIVEN: Final = ("processes", "time_limit")
"""What a handler may ask for that the worker has itself."""
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Clock(Protocol):
    """Tells the time."""

    def __call__(self) -> datetime: ...


class Executor:
    """Executes claimed steps."""

    def __init__(
        self,
        *,
        processes: ProcessPool,
        default_timeout: float | None,
        clock: Clock,
        probe: Probe | None = None,
    ) -> None:
        self._processes = processes
        self._default_timeout = default_timeout
        self._clock = clock
        self._probe = probe or NoProbe()
        self._is_probed = probe is not None
        self._deadlines = Deadlines()

    async def execute(self, steps: Sequence[ClaimedStep]) -> list[Result]:
        """One attempt of each step: in one call if the handler takes many, else one after the other by the caller."""
        started_at = self._clock()
        try:
            definition = definition_of(steps[0])
            if definition.map and steps[0].parent_id is None:
                return [await self._expand(step, definition) for step in steps]
            handler = resolve(definition.method)
            outputs = await self._call(handler, definition, steps)
        except PoolStopped:
            return [Released(step_id=step.id, run_id=step.run_id, lease=step.lease) for step in steps]
        except asyncio.CancelledError as exc:
            if is_cancelled():
                raise
            # A task that the handler itself cancelled, and awaited: that is its error, and not the end of the slot.
            return [errored(step, exc, started_at) for step in steps]
        except Exception as exc:  # noqa: BLE001  a handler may raise anything: it becomes the step's error
            return [errored(step, exc, started_at) for step in steps]
        return [self._result(step, output, started_at) for step, output in zip(steps, outputs, strict=True)]

    async def _call(self, handler: Handler, definition: StepDefinition, steps: Sequence[ClaimedStep]) -> list[Any]:
        at_hand = arguments_at_hand(handler, steps[0])
        arguments = [at_hand] if at_hand is not None else await self._load(handler, steps)
        if self._is_probed:
            await self._probe.reach("before_handler")
        if handler.batch_limit is None:
            outputs = [await self._run(handler, definition, steps[0], arguments[0])]
        else:
            contexts = [StepContext(step, each) for step, each in zip(steps, arguments, strict=True)]
            given = {name: arguments[0][name] for name in _GIVEN if name in handler.wanted}
            results = await self._run(handler, definition, steps[0], {"batch": contexts, **given})
            outputs = _many(handler, results, len(steps))
        if self._is_probed:
            await self._probe.reach("after_handler")
        return outputs

    async def _load(self, handler: Handler, steps: Sequence[ClaimedStep]) -> list[dict[str, Any]]:
        given = {"processes": self._processes, "time_limit": self._timeout_of(steps[0])}
        return await insist(lambda: arguments_for(handler, steps, given))

    async def _run(
        self, handler: Handler, definition: StepDefinition, step: ClaimedStep, arguments: Mapping[str, Any]
    ) -> Any:
        timeout = self._timeout_of(step)
        isolation = step.row["isolation"] or definition.isolation or handler.isolation
        if isolation == Isolation.PROCESS:
            return await self._processes.run(handler.method, arguments, timeout=timeout)
        if isolation == Isolation.RAY:
            raise ConfigurationError("isolation", "ray is not available here", "use inline or process")
        if handler.is_async and timeout is not None and timeout >= LONG:
            return await self._deadlines.within(timeout, handler.function(**arguments))
        return await run_inline(handler.function, arguments, timeout=timeout)

    def _timeout_of(self, step: ClaimedStep) -> float | None:
        return step.timeout or self._default_timeout

    def _result(self, step: ClaimedStep, output: Any, started_at: datetime) -> Result:
        if isinstance(output, Exception):
            return errored(step, output, started_at)
        try:
            text = None if output is None else storable_json(output)
        except PermanentError as exc:
            return errored(step, exc, started_at)
        return Completed(
            step_id=step.id, run_id=step.run_id, lease=step.lease, output=text, started_at=started_at, run=step.run
        )

    async def _expand(self, step: ClaimedStep, definition: StepDefinition) -> Result:
        items = await insist(lambda: _items_of(step, definition))
        return Expanded(step_id=step.id, run_id=step.run_id, lease=step.lease, items=items)


def is_cancelled() -> bool:
    """Whether somebody has cancelled the current task."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def definition_of(step: ClaimedStep) -> StepDefinition:
    """The step as its workflow defines it now."""
    workflow = get_registry().workflow(step.workflow_id)
    try:
        return workflow.step(step.name)
    except (KeyError, NotFoundError) as exc:
        problem = f"workflow {step.workflow_id!r} no longer has a step {step.name!r}"
        raise PermanentError(f"{problem}; restore it, then retry the run") from exc


async def _items_of(step: ClaimedStep, definition: StepDefinition) -> list[Any]:
    """What a map step maps over: the output of the step it depends on, or the run's input; or a list inside of it."""
    if definition.depends_on:
        call = SQL.output_of_step(run_id=step.run_id, name=definition.depends_on[0])
        rows = await Database.transact(single(call))
        source, found = f"the output of step {definition.depends_on[0]!r}", json_of(rows[0], "output")
    else:
        source, found = "the run's input", step.run_input
    if isinstance(definition.map, str):
        source = f"{source}, key {definition.map!r}"
        found = found.get(definition.map) if isinstance(found, dict) else None
    if not isinstance(found, list):
        raise PermanentError(f"step {step.name!r} maps over {source}, which is not a list but {type(found).__name__}")
    return found


def _many(handler: Handler, results: Any, expected: int) -> list[Any]:
    if not isinstance(results, list) or len(results) != expected:
        got = f"{len(results)} results" if isinstance(results, list) else type(results).__name__
        raise PermanentError(
            f"handler {handler.method!r} was given {expected} steps and returned {got}, not a list of as many"
        )
    return results


def storable_json(output: Any) -> str:
    """A result as JSON that either database takes; one that cannot be stored would take its whole batch down."""
    try:
        text = _encode(output)
        text.encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise PermanentError(f"the handler's result cannot be stored as JSON: {exc}") from exc
    if "\\u0000" in text:
        raise PermanentError("the handler's result cannot be stored as JSON: a text in it holds a NUL character")
    return text


def errored(step: ClaimedStep, exc: BaseException, started_at: datetime | None = None) -> Errored:
    """What is recorded of a failed attempt."""
    return Errored(
        step_id=step.id,
        run_id=step.run_id,
        lease=step.lease,
        message=message_of(exc),
        permanent=is_permanent(exc),
        delay=_delay(step),
        meta={
            "error_type": type(exc).__qualname__,
            "traceback": storable_text("".join(traceback.format_exception(exc))[-LONGEST_TRACEBACK:]),
        },
        started_at=started_at,
    )


def is_permanent(exc: BaseException) -> bool:
    """Whether there is no use in another attempt. Everything else may be a passing trouble, and is tried again."""
    match exc:
        case PermanentError():
            return True  # the handler says so
        case DefinitionError() | ConfigurationError():
            return True  # somebody has to change a file or a setting, and retry by hand
        case NotFoundError():
            return True  # what the step is about is gone
        case _:
            return False


def message_of(exc: BaseException) -> str:
    text = str(exc) or type(exc).__name__
    shown = text if isinstance(exc, PermanentError) else f"{type(exc).__name__}: {text}" if str(exc) else text
    return storable_text(shown)[:LONGEST_MESSAGE]


def storable_text(text: str) -> str:
    """Text both databases take: no NUL, no half of a surrogate pair."""
    return text.replace("\x00", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode()


def _delay(step: ClaimedStep, *, dice: Callable[[], float] = random) -> timedelta:
    try:
        return definition_of(step).backoff.delay_after(step.retry + 1, random=dice)
    except (PermanentError, NotFoundError, DefinitionError):
        return timedelta()  # it fails for good: there is no next attempt to wait for


def now_in_utc() -> datetime:
    return datetime.now(UTC)
