"""What the shipped steps of a workflow refuse of their parameters, said before anything is started with them.

A handler of a user may understand whatever it likes, so only steps with our handlers are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from soliplex.ingester.lib.chunking import ChunkOptions
from soliplex.ingester.lib.embedding import EmbedOptions, provider_of
from soliplex.ingester.lib.enrichment import EnrichOptions
from soliplex.ingester.lib.enums import WorkflowStepType
from soliplex.ingester.lib.parsing import ParseOptions
from soliplex.ingester.lib.routing import RouteOptions
from soliplex.ingester.lib.step_options import InvalidStepOptionError, StepOptions
from soliplex.ingester.lib.wf.definitions import ParameterSet, StepDefinition, WorkflowDefinition
from soliplex.ingester.lib.wf.registry import effective_parameters

OPTIONS: Final[Mapping[str, type[StepOptions]]] = {
    each.step: each for each in (ParseOptions, ChunkOptions, EmbedOptions, EnrichOptions, RouteOptions)
}
"""The options of the shipped steps that work on a document, by type."""
_OURS: Final = "soliplex.ingester.lib.workflow."


def check_step_parameters(workflow: WorkflowDefinition, params: ParameterSet) -> None:
    """Refuse what makes a step fail for every document, after the steps before it were done in vain."""
    for step in filter(is_shipped, workflow.steps):
        given = effective_parameters(step, params)
        if step.type == WorkflowStepType.STORE:
            data_dir_of(given)
        elif step.type in OPTIONS:
            options = OPTIONS[step.type].read(given)
            if isinstance(options, EmbedOptions):
                provider_of(options)


def data_dir_of(parameters: Mapping[str, Any]) -> str:
    """The RAG database that a store step stores into."""
    data_dir = parameters.get("data_dir")
    if not data_dir:
        raise InvalidStepOptionError(
            "store.data_dir", "name the RAG database to store into, such as `data_dir: lancedb`"
        )
    return str(data_dir)


def is_shipped(step: StepDefinition) -> bool:
    return step.method.startswith(_OURS)
