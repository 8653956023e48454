"""Flows that are made step by step, at run time, and kept in the database: any worker can run them, after any restart.

A flow without steps is a draft; each step that is added makes a version, and runs keep to the version they began with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from soliplex.ingester.lib.enums import DefinitionKind
from soliplex.ingester.lib.errors import ConflictError, InvalidInputError, NotFoundError
from soliplex.ingester.lib.wf.definitions import (
    ATTEMPTS_IN_JSON,
    StepDefinition,
    WorkflowDefinition,
    workflow_from_steps,
)
from soliplex.ingester.lib.wf.flows import calling
from soliplex.ingester.lib.wf.flows.flow import USUAL_TIMEOUT, Seconds, check_attempts, check_step_name, step_names
from soliplex.ingester.lib.wf.operations.definitions import (
    delete_definition,
    newest_of_all,
    newest_with_drafts,
    save_workflow,
)
from soliplex.ingester.lib.wf.reading import JsonValue
from soliplex.ingester.lib.wf.waiting import check_duration

type StepType = Literal["single", "map"]

_SLUG: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ADDRESS: Final = re.compile(r"[A-Za-z_][\w.]*[.:][A-Za-z_][\w.]*")
BUILT: Final = "flow"
"""The key in the meta of a workflow that was made here: what holds for steps that do not say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltStep:
    """A step of a flow that was made step by step."""

    name: str
    step_type: StepType
    depends_on: list[str]
    initial_tasks: int | None
    max_attempts: int
    timeout: float | None
    command: str | None
    """Where the function is imported from. None: whoever executes the flow brings it along."""
    queue: str | None = None
    """On PostgreSQL, the queue of pgmq that it is sent to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltFlow:
    """A flow that was made step by step."""

    slug: str
    version: int
    max_attempts: int
    timeout: float | None
    steps: list[BuiltStep]


class FlowBuilder:
    """Makes flows at run time."""

    @staticmethod
    async def create_flow(
        slug: str,
        max_attempts: int = ATTEMPTS_IN_JSON,
        timeout: Seconds | None = USUAL_TIMEOUT,  # noqa: ASYNC109  of a step
    ) -> BuiltFlow:
        """Begin a flow, which has no steps yet. Attempts and timeout hold for steps that do not say otherwise."""
        checked_slug("slug", slug)
        if await newest_with_drafts(slug) is not None:
            raise ConflictError(f"there is a flow {slug!r} already; delete it first, or choose another slug")
        seconds = None if timeout is None else check_duration("timeout", timeout).total_seconds()
        meta: dict[str, JsonValue] = {BUILT: {"max_attempts": check_attempts(max_attempts), "timeout": seconds}}
        await save_workflow(WorkflowDefinition(id=slug, name=slug, steps=(), meta=meta), is_draft=True)
        return await FlowBuilder.get_flow(slug)

    @staticmethod
    async def add_step(
        slug: str,
        step: str,
        depends_on: Sequence[str] = (),
        step_type: StepType = "single",
        initial_tasks: int | None = None,
        max_attempts: int | None = None,
        timeout: Seconds | None = None,  # noqa: ASYNC109  of a step
        command: str | None = None,
        queue: str | None = None,
    ) -> BuiltFlow:
        """Add a step. A map step is done for each item of what the step it depends on gave, or of the run's input.

        `command` is where its function is imported from (`package.module.function`); without it, the function is given
        to `Executor.execute_dynamic`. `initial_tasks` says how many items a map step has; with another number it fails.
        `queue` is the queue of pgmq that it is sent to, on PostgreSQL.
        """
        flow = await _found(slug)
        check_step_name("step", checked_slug("step", step))
        usual = _usual(flow)
        seconds = usual["timeout"] if timeout is None else timeout
        new = StepDefinition(
            key=step,
            method=calling.CALL,
            type="flow",
            retries=check_attempts(usual["max_attempts"] if max_attempts is None else max_attempts),
            parameters={} if command is None else {calling.FUNCTION: _address(command)},
            depends_on=step_names("depends_on", depends_on),
            map=_is_map(step_type, initial_tasks),
            expected_items=initial_tasks if step_type == "map" else None,
            timeout=None if seconds is None else check_duration("timeout", seconds),
            queue=queue,
        )
        await save_workflow(workflow_from_steps(slug, [*flow.steps, new], name=flow.name, meta=flow.meta))
        return await FlowBuilder.get_flow(slug)

    @staticmethod
    async def get_flow(slug: str) -> BuiltFlow:
        """The flow as it is now."""
        found = await newest_with_drafts(slug)
        if found is None or BUILT not in found.workflow.meta:
            raise NotFoundError("flow", slug)
        return _told(found.workflow, found.version)

    @staticmethod
    async def list_flows() -> list[BuiltFlow]:
        """All flows that were made step by step, by slug."""
        found = [each for each in await newest_of_all() if BUILT in each.workflow.meta]
        return [_told(each.workflow, each.version) for each in found]

    @staticmethod
    async def delete_flow(slug: str) -> None:
        """Let the flow be found no more. Runs of it go on."""
        await _found(slug)
        await delete_definition(DefinitionKind.WORKFLOW, slug)


async def _found(slug: str) -> WorkflowDefinition:
    found = await newest_with_drafts(slug)
    if found is None or BUILT not in found.workflow.meta:
        raise NotFoundError("flow", slug)
    return found.workflow


def _usual(flow: WorkflowDefinition) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", flow.meta[BUILT])


def _told(flow: WorkflowDefinition, version: int) -> BuiltFlow:
    usual = _usual(flow)
    steps = [
        BuiltStep(
            name=step.key,
            step_type="single" if step.map is False else "map",
            depends_on=list(step.depends_on),
            initial_tasks=step.expected_items,
            max_attempts=step.retries,
            timeout=step.timeout.total_seconds() if step.timeout else None,
            command=cast("str | None", step.parameters.get(calling.FUNCTION)),
            queue=step.queue,
        )
        for step in flow.steps
    ]
    return BuiltFlow(
        slug=flow.id, version=version, max_attempts=usual["max_attempts"], timeout=usual["timeout"], steps=steps
    )


def checked_slug(field: str, slug: object) -> str:
    if not isinstance(slug, str) or not _SLUG.fullmatch(slug):
        raise InvalidInputError(field, f"is {slug!r}; begin with a letter or _, go on with letters, digits or _")
    return slug


def _is_map(step_type: str, initial_tasks: int | None) -> bool:
    if step_type not in ("single", "map"):
        raise InvalidInputError("step_type", f"is {step_type!r}; give single or map")
    least = 0 if step_type == "map" else 1
    if initial_tasks is not None and (initial_tasks < least or (step_type == "single" and initial_tasks != 1)):
        raise InvalidInputError("initial_tasks", f"is {initial_tasks}; a step that is no map has one, a map 0 or more")
    return step_type == "map"


def _address(command: str) -> str:
    if not _ADDRESS.fullmatch(command):
        raise InvalidInputError(
            "command", f"is {command!r}; say where the function is, such as package.module.function"
        )
    if ":" in command:
        return command
    module, _, name = command.rpartition(".")
    return f"{module}:{name}"
