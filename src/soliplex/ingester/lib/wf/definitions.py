"""Workflows and parameter sets as typed, unchanging values: one graph, whether it came from YAML, JSON or code.

    workflow_from_yaml ──► workflow_from_mapping ──┐
    workflow_from_json ────────────────────────────┼──► workflow_from_steps ──► WorkflowDefinition
    StepDefinition(...) in code ───────────────────┘

Every builder raises `DefinitionError` and nothing else, once, with all that is wrong. Handlers are named, not imported.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal, NamedTuple

from soliplex.ingester.lib.enums import Isolation, LifeCycleEvent
from soliplex.ingester.lib.wf import graph
from soliplex.ingester.lib.wf.conditions import Condition, Repeat
from soliplex.ingester.lib.wf.errors import CycleError, DefinitionError, UnknownDefinitionError
from soliplex.ingester.lib.wf.reading import Fields, JsonValue, KeyPath, Source, shown
from soliplex.ingester.lib.wf.retries import Backoff, usual_backoff
from soliplex.ingester.lib.wf.yaml_source import read_yaml

type Origin = Literal["app", "user"]

_USUAL_FACTOR: Final = 2.0
_USUAL_JITTER: Final = 0.1
EVENT_NAMES: Final = tuple(event.value for event in LifeCycleEvent)
ATTEMPTS_IN_JSON: Final = 3
OUTSIDE: Final = "outside"
"""In place of a handler: workers outside, who ask for the step's type by its name, do the work."""
FLOW_HANDLERS: Final = "soliplex.ingester.lib.wf.flows.calling."
"""The beginning of the dotted paths of those handlers that call functions and classes of flows."""
INTERNAL: Final = "internal"
"""The key in a workflow's meta that says that only the product itself starts it."""
ANY_NUMBER: Final = 2**31 - 1
"""How many tasks of a map step may fail where there is no bound."""

_WORKFLOW_KEYS: Final = ("id", "name", "meta", "item_steps", "lifecycle_events")
_STEP_KEYS: Final = (
    "name",
    "type",
    "method",
    "retries",
    "parameters",
    "depends_on",
    "map",
    "timeout",
    "isolation",
    "optional",
    "backoff",
    "when",
    "repeat",
    "tolerant",
    "max_failures",
    "gather",
    "priority",
    "queue",
)
_REPEAT_KEYS: Final = ("until", "max", "delay")
_BACKOFF_KEYS: Final = ("first", "longest", "factor", "jitter")
_HANDLER_KEYS: Final = ("name", "method", "retries", "parameters")
_PARAMETER_SET_KEYS: Final = ("id", "name", "meta", "config")
NAMES_OF_A_CALL: Final = frozenset({"item", "state", "answer", "context", "input"})
"""Names by which functions of flows ask for something of their call, so that no step of theirs may have them."""
_JSON_KEYS: Final = ("id", "version", "title", "steps")
_JSON_STEP_KEYS: Final = (
    "name",
    "type",
    "command",
    "dependencies",
    "max_attempts",
    "timeout",
    "optional",
    "when",
    "repeat",
    "tolerant",
    "max_failures",
    "gather",
    "priority",
    "queue",
)
_QUEUE: Final = re.compile(r"[a-z_][a-z0-9_]{0,46}")
HIGHEST_PRIORITY: Final = 1_000
"""The highest priority of a step; its negative is the lowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDefinition:
    """One step of a workflow. `retries` counts all attempts, the first among them."""

    key: str
    method: str
    name: str = ""
    """What people read; the key unless given."""
    type: str = ""
    """Which consumers take the step; the key in lower case unless given."""
    retries: int = 1
    parameters: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue], hash=False)
    depends_on: tuple[str, ...] = ()
    map: bool | str = False
    """One task for each item of the dependency's output (or the run's input); a text names the list in it."""
    timeout: timedelta | None = None
    isolation: Isolation | None = None
    """None leaves it to the handler."""
    optional: bool = False
    """The run goes on when this step fails."""
    backoff: Backoff = field(default_factory=usual_backoff)
    when: Condition | None = None
    """The step is skipped unless this holds: it then completes without a call, and its output is null."""
    repeat: Repeat | None = None
    """The handler is called until a condition holds."""
    max_failures: int | None = None
    """How many tasks of a map step may fail before the step does. None: the step fails with its first task."""
    gather: bool = True
    """Whether the output of a map step is the list of what its tasks gave. If not, the step has no output."""
    priority: int = 0
    """Added to the run's: of what is ready, the highest goes first."""
    expected_items: int | None = None
    """How many items a map step has: with any other number it fails. None: any number."""
    queue: str | None = None
    """On PostgreSQL, the queue of pgmq that the step is sent to, for workers that finish it in SQL."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.key)
        object.__setattr__(self, "type", (self.type or self.key).lower())

    @property
    def command(self) -> str:
        """What is called or told: as whoever defined the step named it, not the handler that leads there."""
        if self.method != OUTSIDE and not self.method.startswith(FLOW_HANDLERS):
            return self.method
        return str(self.parameters.get("function") or self.parameters.get("command") or self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHandler:
    """A function to be called when something happens in the life of a group, run or step."""

    name: str
    method: str
    retries: int = 1
    parameters: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue], hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDefinition:
    """A graph of steps, in topological order. Made by `workflow_from_steps` and its siblings, which check it."""

    id: str
    name: str
    steps: tuple[StepDefinition, ...]
    meta: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue], hash=False)
    lifecycle_events: Mapping[str, tuple[EventHandler, ...]] = field(
        default_factory=dict[str, tuple[EventHandler, ...]], hash=False
    )
    source_path: Path | None = field(default=None, compare=False)
    text: str = field(default="", compare=False, repr=False)
    first_steps: tuple[StepDefinition, ...] = field(init=False, compare=False, repr=False)
    """The steps that depend on nothing."""
    leaf_steps: tuple[StepDefinition, ...] = field(init=False, compare=False, repr=False)
    """The steps nothing depends on: their output is the run's."""
    stored_form: tuple[str, str] | None = field(default=None, init=False, compare=False, repr=False)
    """As `wf/stored_form.py` writes it, once somebody has asked for it."""
    types: frozenset[str] = field(init=False, compare=False, repr=False)
    """The types of its steps."""
    _by_key: dict[str, StepDefinition] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        needed = {dependency for step in self.steps for dependency in step.depends_on}
        object.__setattr__(self, "first_steps", tuple(step for step in self.steps if not step.depends_on))
        object.__setattr__(self, "leaf_steps", tuple(step for step in self.steps if step.key not in needed))
        object.__setattr__(self, "types", frozenset(step.type for step in self.steps))
        object.__setattr__(self, "_by_key", {step.key: step for step in self.steps})

    @staticmethod
    def parse(data: object, *, slug: str | None = None) -> WorkflowDefinition:
        """As `workflow_from_json`. DefinitionError says all that is wrong."""
        return workflow_from_json(data, slug=slug)

    def step(self, key: str) -> StepDefinition:
        """Give the step with this key."""
        try:
            return self._by_key[key]
        except KeyError:
            raise UnknownDefinitionError("step", key, self._by_key) from None

    @property
    def is_internal(self) -> bool:
        """Whether only the product itself starts it."""
        return bool(self.meta.get(INTERNAL))

    def handlers_for(self, event: str) -> tuple[EventHandler, ...]:
        """Give the handlers of this event, in the order they are written in."""
        return self.lifecycle_events.get(event, ())

    @property
    def dependencies(self) -> dict[str, tuple[str, ...]]:
        """Give the graph as {step: steps it depends on}, in topological order."""
        return {step.key: step.depends_on for step in self.steps}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSet:
    """Values for the parameters of steps, by step key or step type."""

    id: str
    name: str
    meta: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue], hash=False)
    config: Mapping[str, Mapping[str, JsonValue]] = field(
        default_factory=dict[str, Mapping[str, JsonValue]], hash=False
    )
    origin: Origin = "app"
    source_path: Path | None = field(default=None, compare=False)
    text: str = field(default="", compare=False, repr=False)


def workflow_from_yaml(content: str | bytes, *, path: Path | None = None) -> WorkflowDefinition:
    """Read a workflow file's content."""
    data, source = read_yaml(content, path)
    return workflow_from_mapping(data, source=source)


def parameter_set_from_yaml(content: str | bytes, *, path: Path | None = None, origin: Origin = "app") -> ParameterSet:
    """Read a parameter file's content."""
    data, source = read_yaml(content, path)
    return parameter_set_from_mapping(data, origin=origin, source=source)


def workflow_from_mapping(data: object, *, source: Source | None = None) -> WorkflowDefinition:
    """Read a workflow from the mapping that a workflow file holds."""
    fields = _top_level(data, source or Source(), known=_WORKFLOW_KEYS)
    workflow_id = fields.id("id")
    return _checked_workflow(
        workflow_id,
        _read_steps(fields),
        fields.source,
        name=fields.text("name", workflow_id),
        meta=fields.json("meta"),
        lifecycle_events=_read_events(fields.child("lifecycle_events")),
    )


def workflow_from_json(data: object, *, slug: str | None = None, source: Source | None = None) -> WorkflowDefinition:
    """Read a workflow of the shape `{"version", "title", "steps": [{"name", "type", "command", "dependencies"}]}`.

    A type is task or map; or, for workers outside, a name that begins with an @: they get the command as a parameter.
    Its id is `slug`, or else the key `id`, or else the title in lower case with `_` between the words.
    """
    fields = _top_level(data, source or Source(), known=_JSON_KEYS)
    workflow_id = _json_id(fields, slug)
    return _checked_workflow(
        workflow_id,
        _read_json_steps(fields),
        fields.source,
        name=fields.text("title", workflow_id),
        meta=_json_meta(fields),
    )


def workflow_from_steps(
    workflow_id: str,
    steps: Sequence[StepDefinition],
    *,
    name: str | None = None,
    meta: Mapping[str, JsonValue] | None = None,
    lifecycle_events: Mapping[str, tuple[EventHandler, ...]] | None = None,
) -> WorkflowDefinition:
    """Make a workflow from steps written in code: in any order, each saying what it depends on."""
    fields = Fields({"id": workflow_id}, (), Source())
    return _checked_workflow(
        fields.id("id"),
        [_PlacedStep(step, (step.key,), (step.key,)) for step in steps],
        fields.source,
        name=name or workflow_id,
        meta=meta or {},
        lifecycle_events=lifecycle_events,
    )


def parameter_set_from_mapping(data: object, *, origin: Origin = "app", source: Source | None = None) -> ParameterSet:
    """Read a parameter set from the mapping that a parameter file holds."""
    fields = _top_level(data, source or Source(), known=_PARAMETER_SET_KEYS)
    set_id = fields.id("id")
    config = fields.child("config")
    parameters = ParameterSet(
        id=set_id,
        name=fields.text("name", set_id),
        meta=fields.json("meta"),
        config={step: config.json(step) for step in config},
        origin=origin,
        source_path=fields.source.path,
        text=fields.source.text,
    )
    fields.source.raise_problems()
    return parameters


def _top_level(data: object, source: Source, *, known: Sequence[str]) -> Fields:
    if not isinstance(data, Mapping):
        source.note((), f"is {shown(data)}; give a mapping with the keys {', '.join(known)}")
        source.raise_problems()
    fields = Fields(data, (), source)
    fields.only(known)
    return fields


class _PlacedStep(NamedTuple):
    """A step, where it is written, and where it is written what it depends on."""

    step: StepDefinition
    where: KeyPath
    edges_at: KeyPath


def _checked_workflow(
    workflow_id: str,
    placed: Sequence[_PlacedStep],
    source: Source,
    *,
    name: str,
    meta: Mapping[str, JsonValue],
    lifecycle_events: Mapping[str, tuple[EventHandler, ...]] | None = None,
) -> WorkflowDefinition:
    """Check the graph, raise all that was found wrong, and put the steps in order."""
    steps = _by_key(placed, source)
    for entry in steps.values():
        _note_contradictions(entry, steps.keys(), source)
    dependencies = {key: entry.step.depends_on for key, entry in steps.items()}
    _note_graph_problems(dependencies, steps, source)
    source.raise_problems()
    return WorkflowDefinition(
        id=workflow_id,
        name=name,
        steps=tuple(steps[key].step for key in graph.topological_order(dependencies)),
        meta=meta,
        lifecycle_events=lifecycle_events or {},
        source_path=source.path,
        text=source.text,
    )


def _by_key(placed: Sequence[_PlacedStep], source: Source) -> dict[str, _PlacedStep]:
    if not placed and not source.has_problems:
        source.note((), "has no steps; give at least one")
    steps: dict[str, _PlacedStep] = {}
    for entry in placed:
        if entry.step.key in steps:
            source.note(entry.where, f"is a second step named {shown(entry.step.key)}; give each its own name")
        steps.setdefault(entry.step.key, entry)
    return steps


def _note_names_out_of_reach(entry: _PlacedStep, keys: Collection[str], source: Source) -> None:
    """Note steps that a condition names and that its step does not depend on: their output may not be there yet."""
    step, where, _ = entry
    until = step.repeat.until if step.repeat else None
    for place, condition in ((("when",), step.when), (("repeat", "until"), until)):
        for name in sorted(condition.names & set(keys) - {*step.depends_on}) if condition else ():
            source.note((*where, *place), f"names the step {name!r}, on which it does not depend; add it to depends_on")


def _note_contradictions(entry: _PlacedStep, keys: Collection[str], source: Source) -> None:
    step, where, edges_at = entry
    if step.map is not False and len(step.depends_on) > 1:
        names = ", ".join(step.depends_on)
        source.note(edges_at, f"maps over the output of one step, but depends on {names}; leave one of them")
    if step.map is False:
        for key, is_set in (("tolerant", step.max_failures is not None), ("gather", not step.gather)):
            if is_set:
                source.note((*where, key), "is for map steps only; add `map:`, or remove this key")
    _note_names_out_of_reach(entry, keys, source)
    if step.retries < 1:
        source.note(where, f"has {step.retries} retries; give at least 1, the first attempt")
    if abs(step.priority) > HIGHEST_PRIORITY:
        source.note(where, f"has priority {step.priority}; give one from {-HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}")
    if step.timeout is not None and step.timeout <= timedelta(0):
        source.note(where, "has no time to run in; give a timeout above 0, or None")
    if step.queue is not None and not _QUEUE.fullmatch(step.queue):
        wanted = "begin with a letter or _, go on with letters, digits or _, all in lower case, 47 at most"
        source.note((*where, "queue"), f"is {shown(step.queue)}; {wanted}")


def _note_graph_problems(
    dependencies: Mapping[str, Sequence[str]], steps: Mapping[str, _PlacedStep], source: Source
) -> None:
    edges_hold = True
    for key, problem in graph.edge_problems(dependencies):
        edges_hold = False
        source.note(steps[key].edges_at, problem)
        if source.is_full:
            return
    cycle = graph.find_cycle(dependencies) if edges_hold else None
    if cycle is None:
        return
    where = steps[cycle[0]].edges_at
    error = CycleError(cycle, path=source.path, line=source.line_of(where))
    if not source.has_problems:
        raise error
    source.note(where, error.problem)


def _read_steps(fields: Fields) -> list[_PlacedStep]:
    if fields.raw("item_steps") in (None, {}):
        fields.note("item_steps", "has no steps; give at least one, by its key")
    entries = fields.child("item_steps")
    placed: list[_PlacedStep] = []
    before: tuple[str, ...] = ()
    for key in entries:
        step = entries.child(key)
        placed.append(_PlacedStep(_read_step(key, step, before), step.where, (*step.where, "depends_on")))
        before = (key,)
    return placed


def _read_step(key: str, fields: Fields, before: tuple[str, ...]) -> StepDefinition:
    fields.only(_STEP_KEYS)
    fields.check_name(key)
    depends_on = fields.texts("depends_on")
    return StepDefinition(
        key=key,
        name=fields.text("name", key),
        type=_read_type(fields, key),
        method=_read_method(fields),
        retries=fields.integer("retries", 1, at_least=1),
        parameters=fields.json("parameters"),
        depends_on=before if depends_on is None else depends_on,
        map=_read_map(fields),
        timeout=fields.positive_duration("timeout"),
        isolation=_read_isolation(fields),
        optional=fields.flag("optional"),
        backoff=_read_backoff(fields),
        when=_read_condition(fields, "when"),
        repeat=_read_repeat(fields),
        max_failures=_read_max_failures(fields),
        gather=fields.flag("gather") if "gather" in fields else True,
        priority=fields.integer("priority", 0, at_least=-HIGHEST_PRIORITY, at_most=HIGHEST_PRIORITY),
        queue=_read_queue(fields),
    )


def _read_method(fields: Fields) -> str:
    """The handler. A step for workers outside, whose type begins with an @ or that has a queue, needs none."""
    if (str(fields.raw("type") or "").startswith("@") or "queue" in fields) and "method" not in fields:
        return OUTSIDE
    return fields.method("method")


def _read_type(fields: Fields, key: str) -> str:
    """The type. Where there is no pgmq, workers outside take a step by the name of its queue, if it has no handler."""
    usual = f"@{fields.raw('queue')}" if "queue" in fields and "method" not in fields else key
    return fields.text("type", usual)


def _read_queue(fields: Fields) -> str | None:
    return (fields.text("queue") or None) if "queue" in fields else None


def _read_map(fields: Fields) -> bool | str:
    return fields.text("map") if isinstance(fields.raw("map"), str) else fields.flag("map")


def _read_isolation(fields: Fields) -> Isolation | None:
    value = fields.text("isolation", "").lower()
    if not value:
        return None
    if value in Isolation:
        return Isolation(value)
    known = tuple(kind.value for kind in Isolation)
    fields.source.note_unknown((*fields.where, "isolation"), value, known, kind="isolation")
    return None


def _read_condition(fields: Fields, key: str, *, required: bool = False) -> Condition | None:
    if key not in fields and not required:
        return None
    text = fields.text(key, longest=None)
    if not text:
        return None
    try:
        return Condition.parse(text)
    except ValueError as exc:
        fields.note(key, f"{shown(text)} {exc}")
        return None


def _read_repeat(fields: Fields) -> Repeat | None:
    if "repeat" not in fields:
        return None
    entries = fields.child("repeat")
    entries.only(_REPEAT_KEYS)
    until = _read_condition(entries, "until", required=True)
    if entries.raw("max") is None:
        entries.note("max", "is missing; add `max:` with the most calls there may be")
    most = entries.integer("max", 1, at_least=1)
    delay = entries.duration("delay") or timedelta()
    return Repeat(until=until, max=most, delay=delay) if until is not None else None


def _read_max_failures(fields: Fields) -> int | None:
    """How many failed tasks a map step puts up with: with `tolerant` alone, any number."""
    if not fields.flag("tolerant"):
        if "max_failures" in fields:
            fields.note("max_failures", "goes with `tolerant: true` only; add it, or remove this key")
        return None
    return fields.integer("max_failures", ANY_NUMBER, at_least=0)


def _read_backoff(fields: Fields) -> Backoff:
    """Read a backoff; a plain duration is the first wait."""
    if not isinstance(fields.raw("backoff"), Mapping):
        return _backoff(fields, first=fields.duration("backoff"))
    entries = fields.child("backoff")
    entries.only(_BACKOFF_KEYS)
    return _backoff(
        entries,
        first=entries.duration("first"),
        longest=entries.duration("longest"),
        factor=entries.number("factor", _USUAL_FACTOR),
        jitter=entries.number("jitter", _USUAL_JITTER),
    )


def _backoff(
    fields: Fields,
    *,
    first: timedelta | None,
    longest: timedelta | None = None,
    factor: float = _USUAL_FACTOR,
    jitter: float = _USUAL_JITTER,
) -> Backoff:
    """Fill in what was left out: a long first wait raises the usual ceiling, a low ceiling lowers the usual first."""
    usual = usual_backoff()
    ceiling = max(first or usual.first, usual.longest) if longest is None else longest
    start = min(usual.first, ceiling) if first is None else first
    try:
        return Backoff(start, ceiling, factor, jitter)
    except DefinitionError as exc:
        for problem in exc.problems:
            fields.note(problem.key or "first", problem.text)
        return usual


def _read_events(fields: Fields) -> dict[str, tuple[EventHandler, ...]]:
    handlers: dict[str, tuple[EventHandler, ...]] = {}
    for event in fields:
        if event in EVENT_NAMES:
            handlers[event] = _read_handlers(event, fields)
        else:
            fields.source.note_unknown((*fields.where, event), event, EVENT_NAMES, kind="event")
    return handlers


def _read_handlers(event: str, fields: Fields) -> tuple[EventHandler, ...]:
    handlers: dict[str, EventHandler] = {}
    for entry in fields.items(event):
        handler = _read_handler(entry)
        # What was delivered is recorded under the handler's name.
        if handler.name in handlers:
            entry.note("name", f"{shown(handler.name)} is also the name of another handler of {event}; choose another")
        handlers[handler.name] = handler
    return tuple(handlers.values())


def _read_handler(fields: Fields) -> EventHandler:
    fields.only(_HANDLER_KEYS)
    method = fields.method("method")
    return EventHandler(
        name=fields.text("name", method),
        method=method,
        retries=fields.integer("retries", 1, at_least=1),
        parameters=fields.json("parameters"),
    )


def _read_json_steps(fields: Fields) -> list[_PlacedStep]:
    return [
        _PlacedStep(_read_json_step(entry), entry.where, (*entry.where, "dependencies"))
        for entry in fields.items("steps")
    ]


def _read_json_step(fields: Fields) -> StepDefinition:
    fields.only(_JSON_STEP_KEYS)
    kind = fields.text("type", "task")
    queue, command = _read_queue(fields), fields.text("command")
    # The workers of a queue may know commands that are no functions of ours.
    is_outside = kind.startswith("@") or (queue is not None and "." not in command)
    if kind not in ("task", "map") and not kind.startswith("@"):
        fields.source.note_unknown((*fields.where, "type"), kind, ("task", "map"), kind="type")
    if (name := fields.text("name")) in NAMES_OF_A_CALL and not is_outside:
        own = ", ".join(sorted(NAMES_OF_A_CALL))
        fields.note("name", f"is {name!r}, and {own} are what functions are told of their call; choose another")
    return StepDefinition(
        key=name,
        type=f"@{queue}" if is_outside and not kind.startswith("@") else kind,
        method=OUTSIDE if is_outside else command,
        parameters={"command": command} if is_outside else {},
        retries=fields.integer("max_attempts", ATTEMPTS_IN_JSON, at_least=1),
        depends_on=fields.texts("dependencies") or (),
        map=kind == "map",
        timeout=fields.positive_duration("timeout"),
        optional=fields.flag("optional"),
        when=_read_condition(fields, "when"),
        repeat=_read_repeat(fields),
        max_failures=_read_max_failures(fields),
        gather=fields.flag("gather") if "gather" in fields else True,
        priority=fields.integer("priority", 0, at_least=-HIGHEST_PRIORITY, at_most=HIGHEST_PRIORITY),
        queue=_read_queue(fields),
    )


def _json_id(fields: Fields, slug: str | None) -> str:
    if slug is not None or "id" in fields:
        return Fields({"id": slug or fields.raw("id")}, (), fields.source).id("id")
    title = fields.raw("title")
    words = re.findall(r"[a-z0-9]+", title.lower()) if isinstance(title, str) else []
    if not words:
        fields.note("title", f"is {shown(title)}, which gives no id; add an `id`")
    made = "_".join(words)
    return f"_{made}" if made[:1].isdigit() else made


def _json_meta(fields: Fields) -> dict[str, JsonValue]:
    version = fields.raw("version")
    if version is None:
        return {}
    if isinstance(version, bool) or not isinstance(version, str | int | float):
        fields.note("version", f'is {shown(version)}; give a text such as "1.0"')
    return {"version": str(version)}
