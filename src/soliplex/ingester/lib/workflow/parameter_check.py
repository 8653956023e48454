"""What is wrong with a parameter set, said by the field, before anybody runs a workflow with it.

Two kinds are told apart. What makes the text no parameter set is an error: it cannot be saved. What the shipped steps
would refuse is a warning: a workflow with handlers of its own may take it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.embedding import EmbedOptions, provider_of
from soliplex.ingester.lib.enums import WorkflowStepType
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.operations import step_parameters
from soliplex.ingester.lib.step_options import StepOptions
from soliplex.ingester.lib.wf.definitions import ParameterSet, WorkflowDefinition, parameter_set_from_mapping
from soliplex.ingester.lib.wf.errors import DefinitionError, Problem, suggestion
from soliplex.ingester.lib.wf.reading import Source
from soliplex.ingester.lib.wf.yaml_source import read_yaml
from soliplex.ingester.lib.workflow.ingesting import IngestOptions

OPTIONS: Final[Mapping[str, type[StepOptions]]] = {IngestOptions.step: IngestOptions, **step_parameters.OPTIONS}
"""The options of the shipped steps, by type. `store` has one, the name of its database; `validate` has none."""
STORE_OPTIONS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"data_dir": {"type": "string", "description": "The RAG database that is stored into."}},
}


class Weight(StrEnum):
    """How bad a problem is."""

    ERROR = "error"
    """The text is no parameter set: it cannot be saved."""
    WARNING = "warning"
    """The shipped step refuses it; a handler of a user might not."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field."""

    field: str
    """Where it stands, such as `config.chunk.chunk_size`; empty where the whole is meant."""
    line: int | None
    problem: str
    weight: Weight


@dataclass(frozen=True, slots=True)
class CheckedParameters:
    """A parameter set that was looked at."""

    id: str | None
    """None where there is no telling."""
    can_be_saved: bool
    problems: list[FieldProblem]


def check_parameters(text: str, workflows: Sequence[WorkflowDefinition], taken: Sequence[str]) -> CheckedParameters:
    """All that is wrong with the text of a parameter set, in the order of its lines.

    `workflows` tell which steps there are, `taken` which ids are in use.
    """
    try:
        data, source = read_yaml(text)
        params = parameter_set_from_mapping(data, origin="user", source=source)
    except DefinitionError as exc:
        problems = [_as_field(each, Weight.ERROR) for each in exc.problems]
        return CheckedParameters(id=None, can_be_saved=False, problems=problems)
    problems = [*_errors(params, source, taken), *_warnings(params, source, workflows)]
    can_be_saved = all(each.weight is Weight.WARNING for each in problems)
    return CheckedParameters(params.id, can_be_saved, sorted(problems, key=lambda each: each.line or 0))


def schemas() -> dict[str, Mapping[str, Any]]:
    """What each shipped step understands, as a JSON schema, by type of steps."""
    known = {step: options.model_json_schema() for step, options in OPTIONS.items()}
    return {**known, WorkflowStepType.STORE: STORE_OPTIONS}


def _errors(params: ParameterSet, source: Source, taken: Sequence[str]) -> list[FieldProblem]:
    found: list[FieldProblem] = []
    if params.id in taken:
        found.append(_noted(source, ("id",), f"{params.id!r} exists already; give this one another id", Weight.ERROR))
    try:
        operations.check_target(params)
    except InvalidInputError as exc:
        where = ("config", *exc.field.split("."))
        found.append(_noted(source, where, str(exc).removeprefix(f"{exc.field}: "), Weight.ERROR))
    return found


def _warnings(params: ParameterSet, source: Source, workflows: Sequence[WorkflowDefinition]) -> list[FieldProblem]:
    types = {step.key: step.type for flow in workflows for step in flow.steps}
    known = {*OPTIONS, *WorkflowStepType, *types, *types.values()}
    found: list[FieldProblem] = []
    for section, values in params.config.items():
        if section not in known:
            problem = f"no workflow has a step or a type of steps of this name; {suggestion(section, sorted(known))}"
            found.append(_noted(source, ("config", section), problem, Weight.WARNING))
            continue
        step_type = section if section in OPTIONS else types.get(section, section)
        for field, problem in _refusals(step_type, values):
            found.append(_noted(source, ("config", section, *field), problem, Weight.WARNING))
    return found


def _refusals(step_type: str, values: Mapping[str, Any]) -> list[tuple[tuple[str, ...], str]]:
    """What the shipped step of this type refuses: the path of the field, and why."""
    if step_type == WorkflowStepType.STORE:
        return [((name,), "the shipped store step has no such parameter") for name in values if name != "data_dir"]
    options = OPTIONS.get(step_type)
    if options is None:
        return []
    if problems := options.problems_of(values):
        return problems
    if step_type == WorkflowStepType.EMBED:
        try:
            provider_of(EmbedOptions.read(values))
        except InvalidInputError as exc:
            return [(("provider",), str(exc).removeprefix(f"{exc.field}: "))]
    return []


def _noted(source: Source, where: tuple[str, ...], problem: str, weight: Weight) -> FieldProblem:
    return FieldProblem(".".join(where), source.line_of(where), problem, weight)


def _as_field(problem: Problem, weight: Weight) -> FieldProblem:
    return FieldProblem(problem.key or "", problem.line, problem.text, weight)
