"""One attempt of a step, or of a few that share a call: load what the handler asks for, call it, say what came of it.

An attempt never raises for what a handler does: every outcome is a result to be recorded. Only cancellation passes
through.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import random
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from soliplex.ingester.lib.errors import ConfigurationError, IngesterError, InvalidInputError, NotFoundError
from soliplex.ingester.lib.log_facts import working_on
from soliplex.ingester.lib.models import Database, Isolation, RunStatus
from soliplex.ingester.lib.models.transactions import json_of, single
from soliplex.ingester.lib.storable import as_storable_json
from soliplex.ingester.lib.wf import graph
from soliplex.ingester.lib.wf.conditions import Condition, Repeat
from soliplex.ingester.lib.wf.deadlines import LONG, Deadlines
from soliplex.ingester.lib.wf.definitions import StepDefinition, WorkflowDefinition
from soliplex.ingester.lib.wf.errors import (
    CannotExecute,
    DefinitionError,
    FailedOutside,
    PermanentError,
    PoolStopped,
    UnknownDefinitionError,
)
from soliplex.ingester.lib.wf.extensions import deciding_types, reason_to_skip
from soliplex.ingester.lib.wf.handlers import (
    Handler,
    StepContext,
    arguments_at_hand,
    arguments_for,
    names_for_conditions,
    resolve,
    workflow_of,
)
from soliplex.ingester.lib.wf.isolation import ProcessPool, run_inline
from soliplex.ingester.lib.wf.links import insist
from soliplex.ingester.lib.wf.operations.definitions import find_workflow, pin
from soliplex.ingester.lib.wf.operations.payloads import (
    any_large,
    bring_payloads,
    lay_aside,
    lay_aside_items,
    refers_to_payloads,
    value_of,
)
from soliplex.ingester.lib.wf.probes import NoProbe, Probe
from soliplex.ingester.lib.wf.references import KEY, is_large, may_refer
from soliplex.ingester.lib.wf.retries import Backoff
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.task_queues import SentTask, method_of
from soliplex.ingester.lib.wf.underway import Underway
from soliplex.ingester.lib.wf.waiting import Again, Subflow, Wait, Wish, check_duration
from soliplex.ingester.lib.wf.work import (
    SUBFLOW,
    ClaimedStep,
    Completed,
    Errored,
    Expanded,
    NewSubflow,
    NewTask,
    Parked,
    Released,
    Result,
)

if TYPE_CHECKING:
    from soliplex.ingester.lib.wf.tracing.spans import Tracing

_log = logging.getLogger(__name__)

LONGEST_MESSAGE: Final = 2_000
LONGEST_TRACEBACK: Final = 20_000
SEARCH: Final = "search_for_a_worker"
"""The key in a step's `status_meta` under which the search for a worker that can execute it is noted."""
# Short at first: beside a worker that can, one that cannot execute a step may claim it several times in a row.
_SEARCH_PAUSES: Final = Backoff(timedelta(seconds=0.1), timedelta(seconds=30), jitter=0.5)
_GIVEN: Final = ("processes", "time_limit")
"""The names that a handler may ask for and that only the worker knows."""
# A tuple that is made once: making a union for every executed step would take longer than the check itself.
_WISHES: Final = (Again, Wait, Subflow)


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
        patience: timedelta = timedelta(),
        probe: Probe | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._processes = processes
        self._patience = patience
        """How long a step waits for a worker that can execute it, while there are workers, before it fails."""
        self._default_timeout = default_timeout
        self._clock = clock
        self._probe = probe or NoProbe()
        self._is_probed = probe is not None
        self._tracing = tracing
        self._trace_of = None if tracing is None else tracing.trace_id_of
        self._deadlines = Deadlines()

    async def execute(self, steps: Sequence[ClaimedStep]) -> list[Result]:
        """One attempt of each step: in one call if the handler takes many, else one after the other by the caller."""
        underway = Underway(steps, self._trace_of)
        before = working_on.set(underway)
        try:
            started_at = self._clock()
            definition = called_without_question(steps)
            if definition is not None:
                return await self._traced(steps, definition, started_at)
            decided = await decide(steps, started_at, self._patience)
            if not decided.to_call or decided.definition is None:
                return decided.results
            return [*decided.results, *await self._traced(decided.to_call, decided.definition, started_at)]
        finally:
            underway.end()
            working_on.reset(before)
            for step in steps:
                step.company = None  # else a claim would be a cycle, and stay until the garbage is collected

    def _traced(
        self, steps: Sequence[ClaimedStep], definition: StepDefinition, started_at: datetime
    ) -> Coroutine[Any, Any, list[Result]]:
        attempt = self._attempt(steps, definition, started_at)
        return attempt if self._tracing is None else self._tracing.traced(steps, attempt)

    async def _attempt(
        self, steps: Sequence[ClaimedStep], definition: StepDefinition, started_at: datetime
    ) -> list[Result]:
        try:
            handler = resolve(definition.method if definition.queue is None else method_of(definition))
            outputs = await self._call(handler, definition, steps)
            if definition.repeat is not None:
                outputs = await with_repeats(definition.repeat, steps, outputs)
        except PoolStopped:
            return [Released(step_id=step.id, run_id=step.run_id, lease=step.lease) for step in steps]
        except CannotExecute as exc:
            return [unexecuted(step, exc, started_at, self._patience) for step in steps]
        except asyncio.CancelledError as exc:
            if is_cancelled():
                raise
            # The handler cancelled a task of its own and awaited it: that must not end the slot.
            return [errored(step, exc, started_at) for step in steps]
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as exc:  # noqa: BLE001  a handler may raise anything, exit, or panic in Rust: its error
            return [errored(step, exc, started_at) for step in steps]
        results = [
            await outcome_of(step, output, started_at)
            if isinstance(output, Subflow)
            else _result(step, output, started_at)
            for step, output in zip(steps, outputs, strict=True)
        ]
        return await insist(lambda: lay_aside(results, steps)) if any_large(results) else results

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


# Not frozen: one is made for every step executed, and freezing would double the cost of making it.
@dataclass(slots=True)
class Decided:
    """What is to become of steps before any handler is called."""

    results: list[Result]
    """Results of the steps that need no call: these are skipped, become tasks of a map, or cannot be executed here."""
    to_call: Sequence[ClaimedStep] = ()
    definition: StepDefinition | None = None


async def decide(steps: Sequence[ClaimedStep], now: datetime, patience: timedelta) -> Decided:
    """Look up what the steps are, and find out which of them need no call of their handler. All are of one kind."""
    try:
        definition = definition_of(steps[0])
    except CannotExecute as exc:
        return Decided([unexecuted(step, exc, now, patience) for step in steps])
    except DefinitionError as exc:
        return Decided([errored(step, exc, now) for step in steps])
    decided: dict[int, Result] = {}
    if not all(map(_brings_nothing, steps)):
        if any(map(refers_to_payloads, steps)):
            try:
                await insist(lambda: bring_payloads(steps))
            except PermanentError as exc:
                return Decided([errored(step, exc, now) for step in steps])
        decided = _decided_by_subflows(steps, now)
    is_map = definition.map and steps[0].parent_id is None
    if not (decided or is_map or definition.when or steps[0].deciders):
        return Decided([], steps, definition)
    if steps[0].deciders:
        decided |= await insist(lambda: _decided_before(steps, now))
    if definition.when is not None:
        decided |= await _decided_by(definition.when, steps, now)
    rest = [step for step in steps if step.id not in decided] if decided else steps
    if is_map:
        return Decided([*decided.values(), *[await _expanded(step, definition, now) for step in rest]])
    return Decided(list(decided.values()), rest, definition)


def called_without_question(steps: Sequence[ClaimedStep]) -> StepDefinition | None:
    """The definition of steps about which `decide` has nothing to find out, as of nearly all; None of others."""
    first = steps[0]
    definition = first.definition
    if definition is None or definition.when is not None or first.deciders or (definition.map and not first.parent_id):
        return None
    return definition if all(map(_brings_nothing, steps)) else None


def _brings_nothing(step: ClaimedStep) -> bool:
    """Whether the step is called for the first time, with nothing that has to be read before, as nearly all are."""
    row = step.row
    return row["answer"] is None and row["state"] is None and not may_refer(row["input"])


async def _expanded(step: ClaimedStep, definition: StepDefinition, now: datetime) -> Result:
    try:
        source, text = await insist(lambda: _mapped_over(step, definition))
        items = _list_in(await insist(lambda: value_of(text)), source, step, definition)
    except Exception as exc:  # noqa: BLE001  whatever is wrong with the list, it is this step's error
        return errored(step, exc, now)
    expanded = Expanded(step_id=step.id, run_id=step.run_id, lease=step.lease, items=items)
    may_be_large = text is not None and (may_refer(text) or is_large(text))
    return await insist(lambda: lay_aside_items(expanded)) if may_be_large else expanded


async def outcome_of(step: ClaimedStep, output: Any, started_at: datetime) -> Result:
    """What is recorded of a step whose handler has returned this."""
    try:
        subflow = await insist(lambda: _new_subflow(output)) if isinstance(output, Subflow) else None
    except PermanentError as exc:
        return errored(step, exc, started_at)
    result = _result(step, output, started_at, subflow)
    return (await insist(lambda: lay_aside([result], [step])))[0] if any_large([result]) else result


def _result(step: ClaimedStep, output: Any, started_at: datetime, subflow: NewSubflow | None = None) -> Result:
    if isinstance(output, Exception):
        return errored(step, output, started_at)
    try:
        if isinstance(output, _WISHES):
            return _parked(step, output, subflow)
        text = None if output is None else storable_json(output)
    except PermanentError as exc:
        return errored(step, exc, started_at)
    return Completed(
        step_id=step.id,
        run_id=step.run_id,
        lease=step.lease,
        output=text,
        started_at=step.began_at or started_at,
        run=step.run,
    )


def unexecuted(step: ClaimedStep, exc: CannotExecute, now: datetime, patience: timedelta) -> Result:
    """Give the step back, for a worker that can execute it; once none has been able to for long enough, fail it."""
    search = Search.of(json_of(step.row, "status_meta") or {}, now)
    if now - search.since >= patience:
        return errored(step, PermanentError(f"{exc}; put it in place, then retry the run"), now)
    if not search.times:
        _log.warning("step %d of run %d waits for a worker that can execute it: %s", step.id, step.run_id, exc)
    return Released(
        step_id=step.id,
        run_id=step.run_id,
        lease=step.lease,
        message=storable_text(f"waits for a worker that can execute it: {exc}")[:LONGEST_MESSAGE],
        meta=search.noted(now),
        delay=search.pause,
    )


def is_cancelled() -> bool:
    """Whether somebody has cancelled the current task."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


@dataclass(frozen=True, slots=True)
class Search:
    """The search for a worker that can execute a step or handle an event, as its `status_meta` tells of it."""

    meta: dict[str, Any]
    since: datetime
    times: int
    """How many workers have given the step or event back."""

    @classmethod
    def of(cls, meta: dict[str, Any], now: datetime) -> Self:
        noted = meta.get(SEARCH)
        # A search that no worker has continued for a while is over: the step was executed, or there was no worker.
        if noted is None or now - datetime.fromisoformat(noted["last"]) > 2 * _SEARCH_PAUSES.longest:
            return cls(meta, now, 0)
        return cls(meta, datetime.fromisoformat(noted["since"]), noted["times"])

    def noted(self, now: datetime) -> dict[str, Any]:
        """The `status_meta` after one more worker has given the step or event back."""
        return {
            **self.meta,
            SEARCH: {"since": self.since.isoformat(), "last": now.isoformat(), "times": self.times + 1},
        }

    @property
    def pause(self) -> timedelta:
        """How long the step or event waits for the next worker."""
        return _SEARCH_PAUSES.delay_after(self.times + 1, random=random)


def definition_of(step: ClaimedStep) -> StepDefinition:
    """The step as its workflow defines it: in the version that its run is pinned to, or else as files define it now.

    Looked up once for each claim: it is asked for by whoever queues the step, calls its handler and records the result.
    """
    if step.definition is None:
        try:
            workflow = workflow_of(step)
            step.definition = workflow.step(step.name)
        except NotFoundError as exc:
            raise CannotExecute(f"workflow {step.workflow_id!r} no longer has a step {step.name!r}") from exc
        if not workflow.types.isdisjoint(deciding_types()):
            step.deciders = _deciders(step.name, workflow)
    return step.definition


def _deciders(step: str, workflow: WorkflowDefinition) -> dict[str, str]:
    """Steps that may decide about this one. What runs beside them must not depend on which was quicker."""
    before = graph.ancestors_of(step, workflow.dependencies)
    return {each.key: each.type for each in workflow.steps if each.key in before and each.type in deciding_types()}


async def _mapped_over(step: ClaimedStep, definition: StepDefinition) -> tuple[str, str | None]:
    """What a map step maps over: the output of the step it depends on, or the run's input; in words, and as JSON."""
    if not definition.depends_on:
        return "the run's input", step.run["input"]
    call = SQL.output_of_step(run_id=step.run_id, name=definition.depends_on[0])
    rows = await Database.transact(single(call))
    return f"the output of step {definition.depends_on[0]!r}", rows[0]["output"]


def _list_in(found: Any, source: str, step: ClaimedStep, definition: StepDefinition) -> list[Any]:
    """The list, or the list inside, that a map step maps over."""
    if isinstance(definition.map, str):
        source = f"{source}, key {definition.map!r}"
        found = found.get(definition.map) if isinstance(found, dict) else None
    if not isinstance(found, list):
        raise PermanentError(f"step {step.name!r} maps over {source}, which is not a list but {type(found).__name__}")
    if definition.expected_items not in (None, len(found)):
        number = definition.expected_items
        raise PermanentError(f"step {step.name!r} is to have {number} items, and {source} has {len(found)}")
    return found


async def _decided_before(steps: Sequence[ClaimedStep], now: datetime) -> dict[int, Result]:
    """What becomes, by id, of the steps that have nothing to do, since an earlier step of their run has decided so."""
    name, deciders = steps[0].name, steps[0].deciders or {}
    runs = {step.run_id: step for step in steps if _may_be_skipped(step)}
    decided: dict[int, Result] = {}
    for row in await Database.read(SQL.outputs_by_name(run_ids=sorted(runs), names=sorted(deciders))):
        step, decider = runs[row["workflow_run_id"]], row["workflow_step_name"]
        reason = reason_to_skip(name, decider, deciders[decider], await value_of(row["output"]))
        if reason is not None:
            decided.setdefault(step.id, _skipped(step, reason, reason, now))
    return decided


async def _decided_by(when: Condition, steps: Sequence[ClaimedStep], now: datetime) -> dict[int, Result]:
    """What becomes, by id, of the steps for which the condition does not hold, or cannot be evaluated."""
    asked = [step for step in steps if _may_be_skipped(step)]
    names = await insist(lambda: names_for_conditions(asked)) if asked else []
    decided: dict[int, Result] = {}
    for step, known in zip(asked, names, strict=True):
        try:
            if not when.holds(known):
                decided[step.id] = _skipped(step, f"{when.text} is false", when.text, now)
        except PermanentError as exc:
            decided[step.id] = errored(step, exc, now)
    return decided


def _may_be_skipped(step: ClaimedStep) -> bool:
    """Whether this is its first call. Tasks of a map step are not asked: their step was, before it began."""
    return step.parent_id is None and not step.row["repeats"] and step.row["state"] is None


def _skipped(step: ClaimedStep, why: str, noted: str, now: datetime) -> Completed:
    meta = json_of(step.row, "status_meta") or {}
    return Completed(
        step_id=step.id,
        run_id=step.run_id,
        lease=step.lease,
        message=storable_text(f"skipped: {why}")[:LONGEST_MESSAGE],
        meta={**meta, "skipped": noted},
        started_at=now,
        run=step.run,
    )


async def with_repeats(repeat: Repeat, steps: Sequence[ClaimedStep], outputs: list[Any]) -> list[Any]:
    """What the handler returned, or, where the loop is not over, the wish to be called again with that as its state."""
    known = await insist(lambda: names_for_conditions(steps))
    return [_repeated(repeat, *each) for each in zip(steps, outputs, known, strict=True)]


def _repeated(repeat: Repeat, step: ClaimedStep, output: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(output, Exception | Again | Wait | Subflow):
        return output
    calls = step.row["repeats"] + 1
    try:
        if repeat.until.holds({**names, "output": output}):
            return output
    except PermanentError as exc:
        return exc
    if calls >= repeat.max:
        return PermanentError(f"after {calls} calls, `until: {repeat.until.text}` does not hold")
    return Again(output, repeat.delay)


def _parked(step: ClaimedStep, wish: Wish, subflow: NewSubflow | None) -> Parked:
    """What is recorded of a step whose handler asks to be called again."""
    state, task = None if wish.state is None else storable_json(wish.state), None
    match wish:
        case Again():
            awaits, delay = None, check_duration("delay", wish.delay)
        case SentTask():
            awaits, delay, state = None, None, None if step.state is None else storable_json(step.state)
            task = NewTask(wish.queue, wish.headers, step.retry)
        case Wait():
            awaits, delay = wish.key, _limit(wish.timeout)
        case Subflow():
            awaits, delay = f":subflow:{step.id}:{step.row['repeats']}", _limit(wish.timeout)
    return Parked(
        step_id=step.id,
        run_id=step.run_id,
        lease=step.lease,
        state=state,
        awaits=awaits,
        delay=delay,
        subflow=subflow,
        task=task,
    )


def _limit(timeout: timedelta | float | None) -> timedelta | None:
    return None if timeout is None else check_duration("timeout", timeout)


async def _new_subflow(wish: Subflow) -> NewSubflow:
    storable_json(wish.input)
    try:
        workflow = await find_workflow(wish.slug)
        return NewSubflow(workflow, wish.input, await pin(workflow))
    except UnknownDefinitionError as exc:
        raise PermanentError(str(exc)) from exc


def _decided_by_subflows(steps: Sequence[ClaimedStep], now: datetime) -> dict[int, Result]:
    """What becomes, by id, of steps that waited for a run that has not completed."""
    outcomes = {step.id: (step, step.subflow_outcome) for step in steps if step.row["answer"] is not None}
    return {
        step_id: errored(step, PermanentError(_words_about(outcome)), now)
        for step_id, (step, outcome) in outcomes.items()
        if outcome is not None and outcome["status"] != RunStatus.COMPLETED
    }


def _words_about(outcome: Mapping[str, Any]) -> str:
    return f"run {outcome[SUBFLOW]}, which this step waited for, ended {outcome['status']}: {outcome['error']}"


def _many(handler: Handler, results: Any, expected: int) -> list[Any]:
    if not isinstance(results, list) or len(results) != expected:
        got = f"{len(results)} results" if isinstance(results, list) else type(results).__name__
        raise PermanentError(
            f"handler {handler.method!r} was given {expected} steps and returned {got}, not a list of as many"
        )
    return results


def storable_json(output: Any) -> str:
    """A result as JSON that either database takes; one that cannot be stored would spoil its whole group."""
    try:
        text = as_storable_json("result", output)
    except InvalidInputError as exc:
        raise PermanentError(f"the handler's result cannot be stored as JSON: it {exc.problem}") from exc
    if may_refer(text):
        raise PermanentError(f"the handler's result has the key {KEY!r}, which is kept for references; rename it")
    return text


def errored(step: ClaimedStep, exc: BaseException, started_at: datetime | None = None) -> Errored:
    """What is recorded of a failed attempt."""
    return Errored(
        step_id=step.id,
        run_id=step.run_id,
        lease=step.lease,
        attempts=min(exc.attempts if isinstance(exc, FailedOutside) else 1, max(step.row["retries"] - step.retry, 1)),
        message=message_of(exc),
        permanent=is_permanent(exc),
        delay=backoff_of(step),
        meta={"error_type": type(exc).__qualname__, "traceback": _traceback_of(exc)},
        started_at=step.began_at or started_at,
    )


def _traceback_of(exc: BaseException) -> str | None:
    """Where the error was raised, as a traceback; empty where it was raised outside this program."""
    if isinstance(exc, FailedOutside):
        return None
    return storable_text("".join(traceback.format_exception(exc))[-LONGEST_TRACEBACK:])


def is_permanent(exc: BaseException) -> bool:
    """Whether another attempt is of no use. Any other error may be about the moment, and the step is tried again."""
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
    """What people read of an error.

    The text of our own errors is written for people; of others, the class is told as well.
    """
    text = str(exc) or type(exc).__name__
    is_for_people = not str(exc) or isinstance(exc, IngesterError)
    shown = text if is_for_people else f"{type(exc).__name__}: {text}"
    return storable_text(shown)[:LONGEST_MESSAGE]


def storable_text(text: str) -> str:
    """Text both databases take: no NUL, no half of a surrogate pair."""
    return text.replace("\x00", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode()


def backoff_of(step: ClaimedStep, *, dice: Callable[[], float] = random) -> timedelta:
    """How long the step waits before its next attempt."""
    try:
        return definition_of(step).backoff.delay_after(step.retry + 1, random=dice)
    except (CannotExecute, DefinitionError):
        return timedelta()  # it fails for good: there is no next attempt to wait for


def now_in_utc() -> datetime:
    return datetime.now(UTC)
