"""What a workflow has to load before it is done with its first document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from soliplex.ingester.lib.embedding import EmbedOptions, provider_of
from soliplex.ingester.lib.models import WorkflowStepType
from soliplex.ingester.lib.operations.step_parameters import is_shipped
from soliplex.ingester.lib.parsing import ParseOptions, chosen_parser_name
from soliplex.ingester.lib.step_options import InvalidStepOptionError
from soliplex.ingester.lib.wf.definitions import StepDefinition
from soliplex.ingester.lib.wf.operations.definitions import chosen_definitions
from soliplex.ingester.lib.wf.registry import effective_parameters


async def loaded_first(workflow_id: str, param_id: str) -> dict[str, str]:
    """What its steps load in the worker, in words, by step. A step that asks a service loads nothing."""
    workflow, params = await chosen_definitions(workflow_id, param_id)
    said = {step.key: _loads(step, effective_parameters(step, params)) for step in workflow.steps}
    return {key: words for key, words in said.items() if words}


def _loads(step: StepDefinition, parameters: Mapping[str, Any]) -> str:
    if not is_shipped(step):
        return ""
    try:
        if step.type == WorkflowStepType.PARSE and chosen_parser_name(ParseOptions.read(parameters)) == "local":
            return "loading the parser"
        if step.type == WorkflowStepType.EMBED and provider_of(EmbedOptions.read(parameters)) == "local":
            return "loading the model"
    except InvalidStepOptionError:
        return ""  # the options are wrong: the step will fail and say why
    return ""
