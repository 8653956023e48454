"""The form in which definitions are stored in the database: JSON that says everything, and is read back as it was.

Files and code may leave out what is usual; the settings of the process that reads them fill it in. Here nothing is left
to a reader: a run means the same in every process, whatever its settings and its version of the product say is usual.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from soliplex.ingester.lib.enums import Isolation
from soliplex.ingester.lib.wf.conditions import Condition, Repeat
from soliplex.ingester.lib.wf.definitions import (
    EventHandler,
    ParameterSet,
    StepDefinition,
    WorkflowDefinition,
    workflow_from_steps,
)
from soliplex.ingester.lib.wf.errors import DefinitionError
from soliplex.ingester.lib.wf.retries import Backoff

FORM: Final = 1
"""Raised when the form changes. Older ones stay readable."""


class StoredForm(NamedTuple):
    """A definition as text, and the hash by which equal ones are found."""

    content: str
    hash: str


def stored_form(workflow: WorkflowDefinition) -> StoredForm:
    """The workflow as it is stored. Made once for each workflow, however often it is started."""
    if workflow.stored_form is None:
        object.__setattr__(workflow, "stored_form", _form_of(_canonical(_packed(workflow))))
    assert workflow.stored_form is not None
    return StoredForm(*workflow.stored_form)


def stored_parameter_set(params: ParameterSet) -> StoredForm:
    """The parameter set as it is stored. Its text goes along, but need not be read: YAML takes long."""
    return _form_of(
        _canonical(
            {
                "form": FORM,
                "id": params.id,
                "name": params.name,
                "meta": dict(params.meta),
                "config": {step: dict(values) for step, values in params.config.items()},
                "text": params.text,
            }
        )
    )


def _canonical(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _form_of(content: str) -> StoredForm:
    return StoredForm(content, hashlib.sha256(content.encode()).hexdigest())


def parameter_set_from_stored(content: str) -> ParameterSet:
    """Read a parameter set back."""
    data = _read(content)
    del data["form"]
    return ParameterSet(**data, origin="user")


def workflow_from_stored(content: str, *, is_draft: bool = False) -> WorkflowDefinition:
    """Read a workflow back. A draft may have no steps yet."""
    data = _read(content)
    if is_draft and not data["steps"]:
        return WorkflowDefinition(id=data["id"], name=data["name"], steps=(), meta=data["meta"])
    workflow = workflow_from_steps(
        data["id"],
        [_step(each) for each in data["steps"]],
        name=data["name"],
        meta=data["meta"],
        lifecycle_events={
            event: tuple(EventHandler(**handler) for handler in handlers)
            for event, handlers in data["lifecycle_events"].items()
        },
    )
    object.__setattr__(workflow, "text", json.dumps(data, ensure_ascii=False, indent=2))
    object.__setattr__(workflow, "stored_form", _form_of(content))
    return workflow


def _read(content: str) -> dict[str, Any]:
    """Read stored JSON. DefinitionError if a newer version of the product has stored it."""
    data = json.loads(content)
    if data.get("form") != FORM:
        problem = f"was stored in form {data.get('form')}; this version of the product reads form {FORM}: upgrade it"
        raise DefinitionError(problem)
    return data


def _packed(workflow: WorkflowDefinition) -> dict[str, Any]:
    return {
        "form": FORM,
        "id": workflow.id,
        "name": workflow.name,
        "meta": dict(workflow.meta),
        "steps": [_packed_step(step) for step in workflow.steps],
        "lifecycle_events": {
            event: [
                {
                    "name": handler.name,
                    "method": handler.method,
                    "retries": handler.retries,
                    "parameters": dict(handler.parameters),
                }
                for handler in handlers
            ]
            for event, handlers in workflow.lifecycle_events.items()
        },
    }


def _packed_step(step: StepDefinition) -> dict[str, Any]:
    return {
        "key": step.key,
        "method": step.method,
        "name": step.name,
        "type": step.type,
        "retries": step.retries,
        "parameters": dict(step.parameters),
        "depends_on": list(step.depends_on),
        "map": step.map,
        "timeout": _seconds(step.timeout),
        "isolation": step.isolation,
        "optional": step.optional,
        "backoff": {
            "first": _seconds(step.backoff.first),
            "longest": _seconds(step.backoff.longest),
            "factor": step.backoff.factor,
            "jitter": step.backoff.jitter,
        },
        "when": step.when.text if step.when else None,
        "repeat": _packed_repeat(step.repeat),
        "max_failures": step.max_failures,
        "gather": step.gather,
        # Left out where they say nothing: workflows that were stored before these were known keep their hash.
        **({} if step.expected_items is None else {"expected_items": step.expected_items}),
        **({} if step.priority == 0 else {"priority": step.priority}),
        **({} if step.queue is None else {"queue": step.queue}),
    }


def _packed_repeat(repeat: Repeat | None) -> dict[str, Any] | None:
    if repeat is None:
        return None
    return {"until": repeat.until.text, "max": repeat.max, "delay": _seconds(repeat.delay)}


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _step(data: Mapping[str, Any]) -> StepDefinition:
    backoff = data["backoff"]
    return StepDefinition(
        key=data["key"],
        method=data["method"],
        name=data["name"],
        type=data["type"],
        retries=data["retries"],
        parameters=data["parameters"],
        depends_on=tuple(data["depends_on"]),
        map=data["map"],
        timeout=_duration(data["timeout"]),
        isolation=Isolation(data["isolation"]) if data["isolation"] else None,
        optional=data["optional"],
        backoff=Backoff(
            timedelta(seconds=backoff["first"]),
            timedelta(seconds=backoff["longest"]),
            backoff["factor"],
            backoff["jitter"],
        ),
        when=Condition.parse(data["when"]) if data["when"] else None,
        repeat=_repeat(data["repeat"]),
        max_failures=data["max_failures"],
        gather=data["gather"],
        expected_items=data.get("expected_items"),
        priority=data.get("priority", 0),
        queue=data.get("queue"),
    )


def _repeat(data: Mapping[str, Any] | None) -> Repeat | None:
    if data is None:
        return None
    return Repeat(until=Condition.parse(data["until"]), max=data["max"], delay=_duration(data["delay"]) or timedelta())
