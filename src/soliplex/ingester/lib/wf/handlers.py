"""Handlers: plain functions, called by parameter name.

A handler names what it wants and gets it: `run_step`, `workflow_run`, `workflow_def`, `step_config`, `step_params`,
`run_group`, `run_params`, `doc_hash`, `batch_id`, `input`, `item`; any parameter of the step's configuration; any key
of the run's input, and any step that this one depends on, whose output it gets; what
extensions provide (`provide`), such as what a run is about; `processes`, the worker's killable processes, for the part
of its work that may crash or hang; and `time_limit`, the seconds after which the attempt is ended. It may be async or
plain.

A handler marked with `@batch_handler(limit=…)` takes many steps at once, as `batch`, a list of `StepContext`, and
returns as many results in the same order. A result that is an exception fails that step alone. One that says what its
steps weigh (`weights=Weights(…)`) gets no call that is heavier than that, but for a single step that is.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from soliplex.ingester.lib.models import Database, Isolation, RunGroup, StepConfig, WorkflowRun
from soliplex.ingester.lib.models.transactions import Row, datetime_of, json_of, single
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.errors import CannotExecute, PermanentError, UnknownDefinitionError
from soliplex.ingester.lib.wf.extensions import extensions_loaded
from soliplex.ingester.lib.wf.operations.payloads import value_of
from soliplex.ingester.lib.wf.references import may_refer
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.stored import stored
from soliplex.ingester.lib.wf.work import ClaimedStep

type Loader = Callable[[Sequence[ClaimedStep]], Awaitable[Sequence[Any]]]
type Weigher = Callable[[Sequence[ClaimedStep]], Awaitable[Sequence[int]]]

_NAMED: Final = frozenset({inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY})
_BATCH_LIMIT: Final = "__batch_limit__"
BATCH_WANTS: Final = "__batch_wants__"
_BATCH_WEIGHTS: Final = "__batch_weights__"
_ISOLATION: Final = "__isolation__"


@dataclass(frozen=True, slots=True)
class Weights:
    """How heavy the steps of a handler are, and how heavy a call may be. What is weighed, the handler decides."""

    weigh: Weigher
    """Gives one weight for each step. It is asked before each call that more than one step could share."""
    most: int


def batch_handler[F: Callable[..., Any]](
    *, limit: int, wants: Collection[str] | None = None, weights: Weights | None = None
) -> Callable[[F], F]:
    """Mark a handler that takes up to `limit` steps in one call.

    Of what has to be loaded for each step, it gets what it `wants`; all that there is, if it does not say. With
    `weights`, the steps of a call weigh no more than these allow. A step that weighs more by itself gets a call of its
    own, after the others: those wait for no giant, and neither its timeout nor its end is theirs.
    """

    def mark(function: F) -> F:
        setattr(function, _BATCH_LIMIT, limit)
        setattr(function, BATCH_WANTS, None if wants is None else frozenset(wants))
        setattr(function, _BATCH_WEIGHTS, weights)
        return function

    return mark


def isolated[F: Callable[..., Any]](isolation: Isolation) -> Callable[[F], F]:
    """Say where a handler runs unless its step says otherwise."""

    def mark(function: F) -> F:
        setattr(function, _ISOLATION, isolation)
        return function

    return mark


@dataclass(frozen=True, slots=True)
class Handler:
    """A function and what it asks for."""

    method: str
    function: Callable[..., Any]
    wanted: tuple[str, ...]
    optional: frozenset[str]
    takes_any: bool
    is_async: bool
    batch_limit: int | None
    batch_wants: frozenset[str] | None
    batch_weights: Weights | None
    isolation: Isolation
    wants_little: bool
    """Whether all that it asks for is known as soon as a step is claimed."""


@lru_cache(maxsize=1024)
def resolve(method: str) -> Handler:
    """Find the function of a dotted path."""
    function = _import(method)
    parameters = inspect.signature(function).parameters.values()
    named = [each for each in parameters if each.kind in _NAMED]
    return Handler(
        method=method,
        function=function,
        wanted=tuple(each.name for each in named),
        optional=frozenset(each.name for each in named if each.default is not each.empty),
        takes_any=any(each.kind is each.VAR_KEYWORD for each in parameters),
        is_async=inspect.iscoroutinefunction(function),
        batch_limit=getattr(function, _BATCH_LIMIT, None),
        batch_wants=getattr(function, BATCH_WANTS, None),
        batch_weights=getattr(function, _BATCH_WEIGHTS, None),
        isolation=getattr(function, _ISOLATION, Isolation.INLINE),
        wants_little=all(each.kind in _NAMED and each.name in _AT_HAND for each in parameters),
    )


def _import(method: str) -> Callable[..., Any]:
    module_name, _, name = method.rpartition(".")
    try:
        function = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as exc:
        raise CannotExecute(f"handler {method!r} cannot be imported: {exc}") from exc
    if not callable(function):
        raise CannotExecute(f"handler {method!r} is not a function")
    return function


@dataclass(frozen=True, slots=True)
class StepContext:
    """One step of a call that takes many, with the arguments that can be asked for by name."""

    step: ClaimedStep
    arguments: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]


def workflow_of(step: ClaimedStep) -> WorkflowDefinition:
    """The workflow of the step: the version that its run is pinned to, or else what files define now."""
    definition_id = step.run["definition_id"]
    if definition_id is not None:
        pinned = stored().version(definition_id)
        if pinned is None:
            raise CannotExecute(f"the version of workflow {step.workflow_id!r} that the run keeps to cannot be read")
        return pinned
    try:
        return get_registry().workflow(step.workflow_id)
    except UnknownDefinitionError as exc:
        raise CannotExecute(str(exc)) from exc


_AT_HAND: Final[dict[str, Callable[[ClaimedStep], Any]]] = {
    "run_step": ClaimedStep.run_step,
    "workflow_def": workflow_of,
    "run_params": lambda step: json_of(step.run, "run_params"),
    "doc_hash": lambda step: step.run["doc_id"],
    "doc_id": lambda step: step.run["doc_id"],
    "batch_id": lambda step: step.run["batch_id"],
    "item": lambda step: step.input,
    "state": lambda step: step.state,
    "answer": lambda step: step.answer,
    "step_id": lambda step: step.id,
    "run_id": lambda step: step.run_id,
    "step_def": lambda step: step.definition or workflow_of(step).step(step.name),
    "step_context": ClaimedStep.context,
}


_loaders: Final[dict[str, Loader]] = {}


def provide(name: str, loader: Loader) -> None:
    """Let handlers ask for `name`. The loader gives one value for each step."""
    _loaders[name] = loader


def arguments_at_hand(handler: Handler, step: ClaimedStep) -> dict[str, Any] | None:
    """The keyword arguments of a call for which nothing has to be loaded; None for any other."""
    if not handler.wants_little:
        return None
    return {name: _AT_HAND[name](step) for name in handler.wanted}


async def arguments_for(
    handler: Handler, steps: Sequence[ClaimedStep], given: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The keyword arguments of each step's call; `given` are those that the worker has itself."""
    await extensions_loaded()
    calls: list[dict[str, Any]] = [{name: given[name] for name in handler.wanted if name in given} for _ in steps]
    names = _names_for_batch(handler) if handler.batch_limit else handler.wanted
    for name in names:
        if name in _AT_HAND:
            get = _AT_HAND[name]
            for call, step in zip(calls, steps, strict=True):
                call[name] = get(step)
        elif name in _loaders:
            for call, value in zip(calls, await _loaders[name](steps), strict=True):
                call[name] = value
    if handler.takes_any or handler.batch_limit or len(calls[0]) < len(names):
        configs = await _step_configs(steps)
        for call, config, step in zip(calls, configs, steps, strict=True):
            _add_parameters(handler, call, config, step)
        if any(_missing(handler, call) for call in calls):
            for call, inputs in zip(calls, await inputs_of(steps), strict=True):
                _add_from_input(handler, call, inputs)
    return calls


def _names_for_batch(handler: Handler) -> tuple[str, ...]:
    wants = handler.batch_wants
    loaded = _loaders if wants is None else [name for name in _loaders if name in wants]
    return ("run_step", "doc_hash", "batch_id", "run_params", *loaded)


def _add_parameters(handler: Handler, call: dict[str, Any], config: StepConfig, step: ClaimedStep) -> None:
    params = dict(config.config_json or {})
    call |= {name: value for name, value in (("step_config", config), ("step_params", params)) if _wants(handler, name)}
    available = params | (json_of(step.run, "run_params") or {})
    call |= {name: value for name, value in available.items() if name not in call and _wants(handler, name)}


def _missing(handler: Handler, call: Mapping[str, Any]) -> list[str]:
    return [name for name in handler.wanted if name not in call and name not in handler.optional and name != "batch"]


def _add_from_input(handler: Handler, call: dict[str, Any], given: Mapping[str, Any]) -> None:
    """What is known by no other name is a key of the run's input, or a step that this one depends on."""
    call |= {name: given[name] for name in _missing(handler, call) if name in given}
    if missing := _missing(handler, call):
        known = ", ".join(sorted({*_AT_HAND, *_loaders, "step_config", "step_params", *call, *given}))
        raise PermanentError(f"handler {handler.method!r} asks for {', '.join(missing)}, which is not among {known}")


def _wants(handler: Handler, name: str) -> bool:
    return handler.takes_any or name in handler.wanted or handler.batch_limit is not None


_configs: Final[dict[tuple[int, int], StepConfig]] = {}
_MOST_CONFIGS: Final = 10_000
MOST_READ_ALONG: Final = 64
"""Steps whose inputs are read along with that of another: what they hold stays in memory until they are executed."""


async def _step_configs(steps: Sequence[ClaimedStep]) -> list[StepConfig]:
    """A step configuration never changes, so it is read once."""
    wanted, database = [step.row["step_config_id"] for step in steps], Database.identity()
    missing = {config_id for config_id in wanted if (database, config_id) not in _configs}
    if missing:
        if len(_configs) > _MOST_CONFIGS:
            _configs.clear()
        rows = await Database.transact(single(SQL.step_configs_by_id(ids=sorted(missing))))
        _configs.update({(database, row["id"]): _step_config(row) for row in rows})
    return [_configs[database, config_id] for config_id in wanted]


async def parameters_of(steps: Sequence[ClaimedStep]) -> list[dict[str, Any]]:
    """The parameters of each step, each overridden by what its run says."""
    configs = await _step_configs(steps)
    return [
        {**(config.config_json or {}), **(json_of(step.run, "run_params") or {})}
        for config, step in zip(configs, steps, strict=True)
    ]


def _step_config(row: Row) -> StepConfig:
    return StepConfig(
        id=row["id"],
        created_date=datetime_of(row, "created_date"),
        step_type=row["step_type"],
        config_json=json_of(row, "config_json"),
        cuml_config_json=row["cuml_config_json"],
        cuml_hash=row["cuml_hash"],
    )


async def _load_run_groups(steps: Sequence[ClaimedStep]) -> list[RunGroup | None]:
    async with Database.session(read_only=True) as session:
        found = {group_id: await session.get(RunGroup, group_id) for group_id in {step.group_id for step in steps}}
    return [found[step.group_id] for step in steps]


async def _load_workflow_runs(steps: Sequence[ClaimedStep]) -> list[WorkflowRun | None]:
    async with Database.session(read_only=True) as session:
        found = {run_id: await session.get(WorkflowRun, run_id) for run_id in {step.run_id for step in steps}}
    for step in steps:
        if may_refer(step.run["input"]) and (run := found[step.run_id]) is not None:
            run.input = await _large_run_input(step)
    return [found[step.run_id] for step in steps]


async def names_for_conditions(steps: Sequence[ClaimedStep]) -> list[dict[str, Any]]:
    """What the conditions of each step may name."""
    inputs, of_runs = await inputs_of(steps), await run_inputs_of(steps)
    return [
        {**known, "input": given, "params": json_of(step.run, "run_params") or {}}
        for known, given, step in zip(inputs, of_runs, steps, strict=True)
    ]


async def run_inputs_of(steps: Sequence[ClaimedStep]) -> list[Any]:
    """The input of each step's run."""
    return [await _large_run_input(step) if may_refer(step.run["input"]) else step.run_input for step in steps]


async def _large_run_input(step: ClaimedStep) -> Any:
    """The run's input, read once for all steps of the run that were claimed together: a map may have many tasks."""
    known = step.company.run_inputs if step.company is not None else {}
    if step.run_id not in known:
        known[step.run_id] = await value_of(step.run["input"])
    return known[step.run_id]


async def inputs_of(steps: Sequence[ClaimedStep]) -> list[Any]:
    """The run's input, with the outputs of the steps this one depends on; for a task of a map step also its item."""
    company = steps[0].company if steps else None
    if company is None:
        await _read_outputs([step for step in steps if step.outputs is None])
    elif any(step.outputs is None for step in steps):
        # The first step reads for all that were claimed along with it: they will ask for their inputs in a moment.
        async with company.reading:
            missing = [step for step in steps if step.outputs is None]
            along = [step for step in company.steps if step.outputs is None]
            await _read_outputs(missing, along[:MOST_READ_ALONG] if missing else ())
    given = await run_inputs_of(steps)
    return [_joined(step, each, step.outputs or {}) for step, each in zip(steps, given, strict=True)]


async def _read_outputs(steps: Sequence[ClaimedStep], along: Sequence[ClaimedStep] = ()) -> None:
    """Read what the steps depend on. The tasks of a map step depend on what that step does.

    What is large is read for `steps` alone: the others read theirs when they are executed.
    """
    if not steps:
        return
    owners = {step.parent_id or step.id for step in (*steps, *along)}
    outputs: dict[int, dict[str, Any]] = {owner: {} for owner in owners}
    own, waiting = {step.parent_id or step.id for step in steps}, set[int]()
    for row in await Database.read(SQL.outputs_of_dependencies(ids=sorted(owners))):
        owner, text = row["step_id"], row["output"]
        if may_refer(text) and owner not in own:
            waiting.add(owner)
        else:
            value = await value_of(text) if may_refer(text) else json_of(row, "output")
            outputs[owner][row["workflow_step_name"]] = value
    for step in (*steps, *along):
        if (step.parent_id or step.id) not in waiting:
            step.outputs = outputs[step.parent_id or step.id]


def _joined(step: ClaimedStep, given: Any, outputs: Mapping[str, Any]) -> Any:
    joined = {**(given if isinstance(given, dict) else {} if given is None else {"input": given}), **outputs}
    return joined | {"item": step.input} if step.parent_id is not None else joined


provide("run_group", _load_run_groups)
provide("workflow_run", _load_workflow_runs)
provide("input", inputs_of)
