"""Which kinds of documents a workflow cannot read, said before anything is uploaded."""

from __future__ import annotations

from collections.abc import Iterable

from soliplex.ingester.lib.models import WorkflowStepType
from soliplex.ingester.lib.operations.step_parameters import check_step_parameters, is_shipped
from soliplex.ingester.lib.parsing import ParseOptions, chosen_parser_name
from soliplex.ingester.lib.parsing.readable import why_unread
from soliplex.ingester.lib.wf.definitions import ParameterSet, WorkflowDefinition
from soliplex.ingester.lib.wf.operations.definitions import chosen_definitions
from soliplex.ingester.lib.wf.registry import effective_parameters


async def unread_kinds(
    kinds: Iterable[str], *, workflow_id: str | None = None, param_id: str | None = None
) -> dict[str, str]:
    """Those of the MIME types that no parse step of the workflow reads, each with the reason.

    None, where that cannot be known: a handler of a user reads them, or a route leads into other workflows. Parameters
    with which no document could be processed are refused: it is asked before anything is uploaded.
    """
    workflow, params = await chosen_definitions(workflow_id, param_id)
    check_step_parameters(workflow, params)
    parsers = _parsers_of(workflow, params)
    unread: dict[str, str] = {}
    for kind in kinds:
        reasons = [why_unread(parser, kind) for parser in parsers]
        if reasons and reasons[0] and all(reasons):
            unread[kind] = reasons[0]
    return unread


def _parsers_of(workflow: WorkflowDefinition, params: ParameterSet) -> list[str]:
    steps = [step for step in workflow.steps if step.type == WorkflowStepType.PARSE]
    routes = any(step.type == WorkflowStepType.ROUTE for step in workflow.steps)
    if routes or not all(map(is_shipped, steps)):
        return []
    return [chosen_parser_name(ParseOptions.read(effective_parameters(step, params))) for step in steps]
