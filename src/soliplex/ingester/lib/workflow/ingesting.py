"""The ingest step: from an address to a stored document, and on to the workflow that processes it.

A run is about one document from its beginning, and here the document is known only once its bytes have come. So the
step gives the document a run of its own, in the same group, and whatever follows in this run has nothing left to do.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pydantic import ByteSize, Field, JsonValue

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.fetching import fetch, without_secrets
from soliplex.ingester.lib.models import RunGroup, WorkflowRun
from soliplex.ingester.lib.operations import NewDocument, Uploaded
from soliplex.ingester.lib.operations.fetches import without_password
from soliplex.ingester.lib.operations.joining import join_group
from soliplex.ingester.lib.step_options import StepOptions
from soliplex.ingester.lib.storage import DocumentTooLargeError
from soliplex.ingester.lib.storage.errors import NoRoomError
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.errors import PermanentError

STORED_ALREADY: Final = "the document is stored already"


class IngestOptions(StepOptions):
    """What becomes of a document that was fetched."""

    step: ClassVar[str] = "ingest"

    workflow: str | None = None
    """Which workflow processes it. Default: this one, if more steps follow; else DEFAULT_WORKFLOW_ID."""
    params: str | None = None
    """With which parameter set. Default: that of this run group."""
    size_limit: ByteSize | None = Field(default=None, gt=0)
    """Most bytes it may have; never more than UPLOAD_SIZE_LIMIT."""


class FetchInput(StepOptions):
    """The input of a run that fetches a document."""

    step: ClassVar[str] = "input"

    uri: str
    source: str
    source_uri: str | None = None
    mime_type: str | None = None
    doc_meta: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


async def ingest_document(
    doc_hash: str | None,
    workflow_run: WorkflowRun,
    workflow_def: WorkflowDefinition,
    run_group: RunGroup,
    step_params: dict[str, Any],
) -> dict[str, Any]:
    """Fetch the document of the run's input, store it, and start its workflow. Repeated, it starts no second one.

    What may pass, such as a server that does not answer, is tried again; what stays, such as 404, fails at once.
    """
    if doc_hash is not None:
        return {"skipped": True, "reason": STORED_ALREADY}
    options, wanted = IngestOptions.read(step_params), _input_of(workflow_run)
    ingested = await _fetch(wanted, workflow_run, _limit(options))
    following = _following(options, workflow_def)
    run_id = await join_group(
        workflow_run.run_group_id,
        ingested.doc_hash,
        workflow_id=following,
        param_id=options.params or run_group.param_definition_id,
        batch_id=workflow_run.batch_id,
        priority=workflow_run.priority,
    )
    return {
        "document": ingested.doc_hash,
        "document_uri": ingested.uri,
        "change": ingested.change.name.lower(),
        "workflow": following,
        "continued_in": run_id,
    }


def _input_of(run: WorkflowRun) -> FetchInput:
    if run.batch_id is None:
        raise PermanentError("a document is fetched into a batch, and this run has none; start it for a batch")
    if not isinstance(run.input, dict):
        raise PermanentError('the run has neither a document nor an input such as {"uri": "https://…", "source": "…"}')
    return FetchInput.read(run.input)


async def _fetch(wanted: FetchInput, run: WorkflowRun, limit: int) -> Uploaded:
    assert run.batch_id is not None
    try:
        new = NewDocument(
            uri=wanted.source_uri or without_password(wanted.uri),
            source=wanted.source,
            batch_id=run.batch_id,
            mime_type=wanted.mime_type,
            meta=wanted.doc_meta,
        )
        return await operations.upload_document(fetch(wanted.uri, limit=limit), new, limit=limit)
    except NoRoomError:
        raise  # worth another attempt: somebody may make room on the disk
    except (InvalidInputError, DocumentTooLargeError) as exc:
        raise _refusal(wanted.uri, exc) from exc


def _refusal(uri: str, exc: InvalidInputError | DocumentTooLargeError) -> PermanentError:
    shown = without_secrets(uri)
    problem = exc.problem if isinstance(exc, InvalidInputError) else str(exc)
    return PermanentError(f"{shown} cannot be fetched: {problem.removeprefix(f'{shown}: ')}")


def _limit(options: IngestOptions) -> int:
    most = int(get_settings().upload_size_limit)
    return most if options.size_limit is None else min(most, int(options.size_limit))


def _following(options: IngestOptions, workflow: WorkflowDefinition) -> str:
    if options.workflow is not None:
        return options.workflow
    return workflow.id if len(workflow.steps) > 1 else get_settings().default_workflow_id
