"""`/flows/{slug}/recommendations` and `/optimize`: what a flow would do better with, and trying it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field, StrictBool

from soliplex.ingester.goals.optimizer.flow_changes import Level
from soliplex.ingester.goals.optimizer.optimizer import OrchestratorOptimizer, Recommendations, Tried
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import Body, Text

router = APIRouter(prefix="/flows", tags=["flows"])

_LEVEL = "Default: ORCHESTRATOR_OPTIMIZATION_LEVEL."
_STRUCTURE = "Whether steps and edges stay as they are. Default: ORCHESTRATOR_OPTIMIZATION_PRESERVE_STRUCTURE."


class WantedOptimization(Body):
    """How far a flow is to be changed."""

    level: Level | None = Field(default=None, description=_LEVEL)
    preserve_structure: StrictBool | None = Field(default=None, description=_STRUCTURE)


@router.get("/{slug}/recommendations", summary="What a flow would do better with", responses=error_answers(400, 404))
async def get_recommendations(
    slug: Text,
    level: Annotated[Level | None, Query(description=_LEVEL)] = None,
    preserve_structure: Annotated[bool | None, Query(description=_STRUCTURE)] = None,
) -> Recommendations:
    """Each with the numbers it follows from, how far it is to be trusted, what it would save, and what keeps it from
    being applied; and what came of what was tried before: the predicted and the measured speedup.
    """
    return await OrchestratorOptimizer.get_recommendations(slug, level, preserve_structure=preserve_structure)


@router.post(
    "/{slug}/optimize",
    summary="Try what a flow would do better with",
    status_code=HTTPStatus.CREATED,
    responses=error_answers(400, 404, 409),
)
async def optimize_flow(slug: Text, body: WantedOptimization) -> Tried:
    """Saves a version of the flow. Its runs are compared with those before; if they are worse, it is taken back."""
    return await OrchestratorOptimizer.apply_optimization(slug, body.level, preserve_structure=body.preserve_structure)
