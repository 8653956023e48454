"""A flow of functions: their parameters say what each needs.

flow = Flow("lengths", max_attempts=3, timeout=30)

@flow.step
async def words(text):                      # no step has this name: it is a key of the run's input
    return text.split()

@flow.map_step(over="words")
async def length(item):
    return len(item)

@flow.step(depends_on=["words"], when="size(words) > 0")
def total(length):                          # what the step `length` gave
    return sum(length)

run_id = await flow.start({"text": "to be or not"})
assert await flow.call({"text": "to be or not"}) == {"total": 9}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict, Unpack, overload

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.wf.conditions import Condition, Repeat
from soliplex.ingester.lib.wf.definitions import (
    ANY_NUMBER,
    ATTEMPTS_IN_JSON,
    NAMES_OF_A_CALL,
    StepDefinition,
    WorkflowDefinition,
    workflow_from_steps,
)
from soliplex.ingester.lib.wf.flows import calling
from soliplex.ingester.lib.wf.flows.functions import Function, address_of, keep, parameters_of
from soliplex.ingester.lib.wf.operations.claim import this_process
from soliplex.ingester.lib.wf.waiting import check_duration

type Seconds = timedelta | float

USUAL_TIMEOUT: Final = 30.0


class StepOptions(TypedDict, total=False):
    """How a step is called."""

    name: str
    depends_on: Sequence[str]
    when: str
    repeat: Mapping[str, Any]
    max_attempts: int
    timeout: Seconds
    optional: bool
    priority: int
    queue: str


class MapOptions(StepOptions, total=False):
    """How a map step is called."""

    tolerant: bool
    max_failures: int
    gather: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStep:
    """A function, and how it is called."""

    name: str
    function: Function
    depends_on: tuple[str, ...] = ()
    over: str | None = None
    is_map: bool = False
    when: str | None = None
    repeat: Mapping[str, Any] | None = None
    max_attempts: int | None = None
    timeout: Seconds | None = None
    optional: bool = False
    priority: int = 0
    tolerant: bool = False
    max_failures: int | None = None
    gather: bool = True
    queue: str | None = None


def check_step_name(field: str, name: str) -> None:
    """Refuse a name by which functions ask for something else: what the step gave could not be asked for."""
    if name in NAMES_OF_A_CALL:
        own = ", ".join(sorted(NAMES_OF_A_CALL))
        raise InvalidInputError(
            field, f"is {name!r}, and {own} are what functions are told of their call; choose another"
        )


def step_names(field: str, names: Sequence[str]) -> tuple[str, ...]:
    """The names of steps. One text in place of a list would be taken for its letters."""
    if isinstance(names, str):
        raise InvalidInputError(field, f"is {names!r}; give a list of steps, such as [{names!r}]")
    if wrong := [each for each in names if not isinstance(each, str)]:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(field, f"holds {wrong[0]!r}; give the names of steps, as texts")
    return tuple(names)


def check_attempts(number: object) -> int:
    """Refuse what is no number of attempts."""
    return whole_number("max_attempts", number)


def whole_number(field: str, number: object, *, least: int = 1) -> int:
    """Refuse what is no number, or one that is too small, or that a database could not store."""
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= ANY_NUMBER:
        raise InvalidInputError(
            field, f"is {number!r}; give a whole number of at least {least}, and at most {ANY_NUMBER}"
        )
    return number


class Flow:
    """A graph of functions."""

    def __init__(
        self,
        slug: str,
        *,
        max_attempts: int = ATTEMPTS_IN_JSON,
        timeout: Seconds | None = USUAL_TIMEOUT,
        title: str = "",
    ) -> None:
        self.slug = slug
        self.title = title or slug
        self._max_attempts = check_attempts(max_attempts)
        self._timeout = timeout
        self._steps: dict[str, FlowStep] = {}
        self._made: WorkflowDefinition | None = None
        self._token: str | None = None

    @overload
    def step[F: Function](self, function: F, /) -> F: ...
    @overload
    def step[F: Function](self, /, **options: Unpack[StepOptions]) -> Callable[[F], F]: ...
    def step(self, function: Function | None = None, /, **options: Unpack[StepOptions]) -> Any:
        """Add a function as a step, named as it is.

        `depends_on` adds edges without data. `when` and `repeat` (`until`, `max`, `delay`) are conditions in CEL.
        `name`, `max_attempts`, `timeout`, `optional` and `queue` are as in workflow files.
        """
        if function is not None:
            return self._added(function, {})
        return lambda function: self._added(function, options)

    def map_step[F: Function](self, *, over: str | None = None, **options: Unpack[MapOptions]) -> Callable[[F], F]:
        """Add a function that is called for each `item` of a list.

        `over` names the step that gives the list, or else the key of the run's input that holds it; without it, the
        run's input is the list. `tolerant=True` goes on when an item fails, up to `max_failures`; `gather=False` gives
        no list.
        """
        return lambda function: self._added(function, {**options, "over": over, "is_map": True})

    def _added[F: Function](self, function: F, options: Mapping[str, Any]) -> F:
        unknown = options.keys() - FlowStep.__dataclass_fields__.keys()
        if unknown:
            known = ", ".join(sorted(FlowStep.__dataclass_fields__.keys() - {"function", "is_map"}))
            raise InvalidInputError(min(unknown), f"is no option of a step; give one of {known}")
        name = options.get("name") or getattr(function, "__name__", "")
        if not name or name == "<lambda>":
            raise InvalidInputError("name", f"is missing: {function!r} has none; give one (`name=…`)")
        check_step_name("name", name)
        if not callable(function):  # pyright: ignore[reportUnnecessaryComparison]  users may err
            raise InvalidInputError(name, f"is {function!r}; give a function")
        if name in self._steps:
            raise InvalidInputError("name", f"there is a step {name!r} in flow {self.slug!r} already; choose another")
        edges = step_names("depends_on", options.get("depends_on") or ())
        facts: dict[str, Any] = {**options, "name": name, "function": function, "depends_on": edges}
        self._steps[name] = FlowStep(**facts)
        self._made = None
        return function

    @property
    def steps(self) -> Mapping[str, FlowStep]:
        """The steps, by name."""
        return self._steps

    def definition(self) -> WorkflowDefinition:
        """The flow as a workflow. DefinitionError says all that is wrong with it."""
        if self._made is None:
            addresses = {name: address_of(step.function) for name, step in self._steps.items()}
            steps = [self._defined(step, addresses[step.name]) for step in self._steps.values()]
            self._made = workflow_from_steps(self.slug, steps, name=self.title)
            if None in addresses.values():
                self._token = keep({name: step.function for name, step in self._steps.items()}, self.slug)
        return self._made

    @property
    def token(self) -> str | None:
        """The name under which this process keeps the functions; None if any process can import them."""
        self.definition()
        return self._token

    async def start(
        self,
        input: Any = None,  # noqa: A002  as everywhere
        *,
        key: str | None = None,
        priority: int = 0,
        start_at: datetime | None = None,
        deadline: datetime | None = None,
    ) -> int:
        """Start a run, and give its id. The same key again: the same run."""
        from soliplex.ingester.lib.wf.flows.executor import Executor  # noqa: PLC0415  which knows flows

        return await Executor.start_workflow(
            self, input, key=key, priority=priority, start_at=start_at, deadline=deadline
        )

    async def save(self) -> str:
        """Store the flow without starting it, and give its slug: `Subflow` and schedules find it by that."""
        from soliplex.ingester.lib.wf.flows.executor import Executor  # noqa: PLC0415  as above

        return await Executor.save(self)

    async def call(self, input: Any = None, *, signals: Mapping[str, Any] | None = None) -> dict[str, Any]:  # noqa: A002
        """What a run would give, by calling the functions one after the other in memory: for tests.

        Errors are raised, and nothing is tried again. `signals` are the answers to what the functions wait for, by key.
        """
        from soliplex.ingester.lib.wf.flows.rehearsal import rehearse  # noqa: PLC0415  which knows flows

        return await rehearse(self, input, signals or {})

    def edges_of(self, step: FlowStep) -> tuple[str, ...]:
        """The steps that this one depends on: those that it names, that it maps over, or that its parameters name."""
        named = [name for name in parameters_of(step.function) if name in self._steps and name not in NAMES_OF_A_CALL]
        over = [step.over] if step.over in self._steps else []
        return tuple(dict.fromkeys([*over, *step.depends_on, *named]))

    def _defined(self, step: FlowStep, address: str | None) -> StepDefinition:
        asks_for_little = parameters_of(step.function).keys() <= calling.OF_A_CALL
        mapped: bool | str = step.is_map
        if step.is_map and step.over is not None and step.over not in self._steps:
            mapped = step.over
        timeout = step.timeout if step.timeout is not None else self._timeout
        definition = StepDefinition(
            key=step.name,
            method=calling.CALL_WITH_ITEM if asks_for_little else calling.CALL,
            type="flow",
            retries=self._max_attempts if step.max_attempts is None else check_attempts(step.max_attempts),
            parameters={calling.FUNCTION: address} if address is not None else {},
            depends_on=self.edges_of(step),
            map=mapped,
            timeout=None if timeout is None else check_duration("timeout", timeout),
            optional=step.optional,
            priority=step.priority,
            when=_condition(step.name, "when", step.when),
            repeat=_repeat(step),
            max_failures=_max_failures(step),
            gather=step.gather,
            queue=step.queue,
        )
        return definition if address is not None else replace(definition, type=this_process())


def _condition(step: str, field: str, text: str | None) -> Condition | None:
    if text is not None and not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  users may err
        raise InvalidInputError(f"{step}.{field}", f"is {text!r}; give a condition as a text")
    try:
        return None if text is None else Condition.parse(text)
    except ValueError as exc:
        raise InvalidInputError(f"{step}.{field}", f"{text!r} {exc}") from exc


def _repeat(step: FlowStep) -> Repeat | None:
    if step.repeat is None:
        return None
    if (
        not isinstance(step.repeat, Mapping)  # pyright: ignore[reportUnnecessaryIsInstance]  users may err
        or step.repeat.keys() - {"until", "max", "delay"}
        or not {"until", "max"} <= step.repeat.keys()
    ):
        raise InvalidInputError(f"{step.name}.repeat", "give `until`, `max` and, if calls are to wait, `delay`")
    most = whole_number(f"{step.name}.repeat.max", step.repeat["max"])
    until = _condition(step.name, "repeat.until", step.repeat["until"])
    assert until is not None
    delay = check_duration("delay", step.repeat.get("delay", 0.0))
    return Repeat(until=until, max=most, delay=delay)


def _max_failures(step: FlowStep) -> int | None:
    if not step.tolerant:
        return None
    return ANY_NUMBER if step.max_failures is None else whole_number("max_failures", step.max_failures, least=0)
