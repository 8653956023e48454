"""What a route or an ingest step decides about the steps that follow it.

A route step may send a document into another workflow, or into one of the branches of its own; an ingest step hands the
document it fetched to a run of its own. They write down what they decided as their output:

    {"continued_in": 17, ...}      the document goes on in run 17: nothing is left to do here
    {"skips": ["ocr"], ...}        these steps belong to branches that were not taken

The engine skips the steps that follow, as it does those whose condition (`when`) does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from soliplex.ingester.lib.models import WorkflowStepType

DECIDING: Final = (WorkflowStepType.INGEST, WorkflowStepType.ROUTE)


def reason_to_skip(step: str, decided_by: str, output: Any) -> str | None:
    """Why a step has nothing to do after another has decided; None where it has."""
    if not isinstance(output, dict):
        return None
    decision = cast("Mapping[str, Any]", output)
    if (run_id := decision.get("continued_in")) is not None:
        return f"the document goes on in run {run_id}"
    if step in (decision.get("skips") or ()):
        return f"step {decided_by!r} chose the branch {decision.get('branch')!r}"
    return None
