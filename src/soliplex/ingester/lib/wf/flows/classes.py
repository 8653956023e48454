"""A workflow as a class with four callbacks, plain or async.

class Greeting(Workflow):
    def definition(self):
        return {"title": "Greeting", "steps": [{"name": "greet", "type": "task", "command": "say_hello"}]}

    async def execute_command(self, run_id, command, input, context):
        return f"hello {input['name']}"

run_id = await Executor.start_workflow(Greeting, {"name": "Ada"})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from soliplex.ingester.lib.enums import LifeCycleEvent
from soliplex.ingester.lib.wf.definitions import (
    OUTSIDE,
    EventHandler,
    StepDefinition,
    WorkflowDefinition,
    workflow_from_json,
    workflow_from_steps,
)
from soliplex.ingester.lib.wf.flows import calling
from soliplex.ingester.lib.wf.flows.functions import address_of, keep
from soliplex.ingester.lib.wf.operations.claim import this_process

_TRIES: int = 3


class Workflow:
    """What users derive their workflows from."""

    slug: ClassVar[str | None] = None
    """The id of the workflow; else it is made of the title."""

    def definition(self) -> Mapping[str, Any]:
        """The steps: `{"version", "title", "steps": [{"name", "type", "command", "dependencies"}]}`."""
        raise NotImplementedError(f"{type(self).__qualname__} must say its steps: write definition()")

    def execute_command(self, run_id: int, command: str, input: dict[str, Any], context: dict[str, Any]) -> Any:  # noqa: A002
        """Do the work of a step. `input` is the run's input with the outputs of the steps before it."""
        raise NotImplementedError(f"{type(self).__qualname__} must execute {command!r}: write execute_command()")

    def on_complete(self, run_id: int, output: dict[str, Any], context: dict[str, Any]) -> Any:
        """A run has completed. After a crash this may be called a second time, with the same `context["event_id"]`."""

    def on_failure(self, run_id: int, error: dict[str, Any], context: dict[str, Any]) -> Any:
        """A run has failed or was cancelled; told as `on_complete` is."""


def definition_of_class(workflow: type[Workflow] | Workflow) -> tuple[WorkflowDefinition, str | None]:
    """The workflow, and the token of a class that only this process has."""
    cls = workflow if isinstance(workflow, type) else type(workflow)
    one = workflow() if isinstance(workflow, type) else workflow
    read = workflow_from_json(one.definition(), slug=cls.slug)
    address = address_of(cls) if isinstance(workflow, type) else None
    named = {"workflow": address} if address is not None else {}
    handlers = {
        event.value: (EventHandler(name=f"flow_{event}", method=calling.ENDED, retries=_TRIES, parameters=named),)
        for event in _told(cls)
    }
    made = workflow_from_steps(
        read.id,
        [_by_command(step, address) for step in read.steps],
        name=read.name,
        meta=read.meta,
        lifecycle_events=handlers,
    )
    return made, None if address is not None else keep({"workflow": one}, made.id)


def _told(cls: type[Workflow]) -> list[LifeCycleEvent]:
    """The events that the class wants to be told of."""
    events = {"on_complete": LifeCycleEvent.ITEM_END, "on_failure": LifeCycleEvent.ITEM_FAILED}
    return [event for name, event in events.items() if getattr(cls, name) is not getattr(Workflow, name)]


def _by_command(step: StepDefinition, address: str | None) -> StepDefinition:
    command = step.parameters["command"] if step.method == OUTSIDE else step.method
    if step.method == OUTSIDE and step.queue is None:
        return step  # its type says that workers outside take it
    parameters = {"command": command} | ({"workflow": address} if address is not None else {})
    kind = "flow" if address is not None else this_process()
    return replace(step, method=calling.COMMAND, parameters=parameters, type=kind)
