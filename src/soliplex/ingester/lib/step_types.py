"""The types of steps that the product has handlers for: what each makes of a document, and whether it has a pool.

A workflow may name types that do not stand here: what they make is kept as `custom`, and the pool of all other types
takes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.enums import ArtifactType, WorkflowStepType


@dataclass(frozen=True, slots=True, kw_only=True)
class StepType:
    """What is known of a type of steps."""

    name: str
    makes: tuple[ArtifactType, ...] = ()
    """The artifacts that its handler stores of a document."""
    slots: Callable[[Settings], int] | None = None
    """How many of its steps a worker does at once, in a pool of their own; None: in the pool of all other types."""


STEP_TYPES: Final = (
    StepType(name=WorkflowStepType.INGEST, makes=(ArtifactType.DOC,)),
    StepType(name=WorkflowStepType.VALIDATE),
    StepType(
        name=WorkflowStepType.PARSE,
        makes=(ArtifactType.PARSED_MD, ArtifactType.PARSED_JSON),
        slots=lambda settings: settings.docling_concurrency,
    ),
    StepType(name=WorkflowStepType.CHUNK, makes=(ArtifactType.CHUNKS,)),
    StepType(name=WorkflowStepType.EMBED, makes=(ArtifactType.EMBEDDINGS,)),
    StepType(name=WorkflowStepType.STORE, makes=(ArtifactType.RAG,), slots=lambda settings: settings.worker_task_count),
    StepType(name=WorkflowStepType.ENRICH),
    StepType(name=WorkflowStepType.ROUTE),
)

_BY_NAME: Final = {step_type.name: step_type for step_type in STEP_TYPES}


def artifacts_of(step_type: str) -> tuple[ArtifactType, ...]:
    """The kinds of artifacts that a step of this type makes."""
    known = _BY_NAME.get(step_type)
    return (ArtifactType.CUSTOM,) if known is None else known.makes
