"""The workflow of a job.

    validate ──▶ parse ──▶ segment ──▶ tag, once for each article ──▶ publish
                  │                     └─ one that fails is FAILED alone
                  └─ the pipeline's own: what it makes is shared with all who ask for the same

It is defined in code, not in a file, so that it is there whatever WORKFLOW_DIR holds; a version is stored when it is
first started, so every worker knows it.
"""

from __future__ import annotations

from typing import Final

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.enums import LifeCycleEvent
from soliplex.ingester.lib.wf.definitions import (
    ANY_NUMBER,
    INTERNAL,
    EventHandler,
    StepDefinition,
    WorkflowDefinition,
    workflow_from_steps,
)
from soliplex.ingester.lib.wiring import current_wiring

WORKFLOW_ID: Final = "segment"
PUBLISH: Final = "publish"
"""The key of the last step."""
TRIES: Final = 5
_HANDLERS: Final = "soliplex.ingester.segmenter.jobs.handlers"
_PIPELINE: Final = "soliplex.ingester.lib.workflow"
_TRIES_OF_EVENTS: Final = 20
"""With the usual pauses, an hour and more: a receiver is told of the end even if the database was away."""


def _event(name: str, function: str) -> tuple[EventHandler, ...]:
    return (EventHandler(name=name, method=f"{_HANDLERS}.{function}", retries=_TRIES_OF_EVENTS),)


def segment_workflow() -> WorkflowDefinition:
    """The workflow, whose steps wait between attempts as the settings say: so it is made once they are known."""
    return current_wiring().made(_made)


def _made(settings: Settings) -> WorkflowDefinition:
    del settings  # each step asks for the usual pauses of the settings by itself
    return workflow_from_steps(
        WORKFLOW_ID,
        [
            StepDefinition(key="validate", method=f"{_PIPELINE}.validate_document", retries=TRIES),
            StepDefinition(
                key="parse", method=f"{_PIPELINE}.split_parse_document", retries=TRIES, depends_on=("validate",)
            ),
            StepDefinition(key="segment", method=f"{_HANDLERS}.segment_document", retries=TRIES, depends_on=("parse",)),
            StepDefinition(
                key="tag",
                method=f"{_HANDLERS}.tag_article",
                retries=TRIES,
                depends_on=("segment",),
                map="articles",
                max_failures=ANY_NUMBER,
                gather=False,
            ),
            StepDefinition(key=PUBLISH, method=f"{_HANDLERS}.publish", retries=TRIES, depends_on=("tag",)),
        ],
        name="Segmentation job",
        meta={INTERNAL: True},
        lifecycle_events={
            LifeCycleEvent.ITEM_START: _event("limit the time", "limit_time"),
            LifeCycleEvent.ITEM_END: _event("tell the end", "tell_end"),
            LifeCycleEvent.ITEM_FAILED: _event("tell the end", "tell_end"),
        },
    )
