"""Documents: taking them in, what is known of them, their workflows, deleting them and all that is stored of them.

    batches/           documents that come in together
    uploading          bytes first, then rows
    documents          what is known of them, their history
    deletion           rows, in one transaction
    storage_check      whether what rows speak of is there
    fetches            runs for addresses
    document_metadata  what rules add to a document
    versions/          what a URI was, and going back to it
    failures           which documents could not be processed, why, and whether to try again
    activity           what is going on, and which documents it is about
    documents_of_runs  the documents that runs name
    kinds              which kinds of documents a workflow cannot read
    rag_check          whether a RAG database holds what was stored in it, and mending it
    held               in which RAG databases a document is
    looking            finding documents by a part of their name
    recording          the rows of many uploads in one transaction
    loading            what a workflow has to load first
    apart              work whose length a client decides, in a process that can be ended
    source_status      what a client has against what is stored
    sync_state         how far clients have followed their sources
    workflow_starts    runs for a batch, or for one document
    removals           bytes and RAG entries, after it
    joining            another run in a group that is under way
    rates              how fast documents were processed
    made               what steps made of them, and is stored
    forgetting         deleting their runs with them
    placing            where contents live, as RAG databases say it
    step_parameters    what shipped steps refuse of their parameters, before anything is started
    group_coverage     how much of its PDFs' text a group has read

Stands on the engine, the stores and the RAG database. Knows no HTTP and no command line.
"""

from __future__ import annotations

from soliplex.ingester.lib.answers import DocumentCoverage, GroupCoverage, RolledBack, StoredVersion, VersionDiff
from soliplex.ingester.lib.errors import DocumentURINotFoundError
from soliplex.ingester.lib.operations.activity import Activity, recent_runs, running_steps
from soliplex.ingester.lib.operations.batches import (
    BatchStatus,
    BatchTimes,
    batch_status,
    batch_times,
    create_batch,
    get_batch,
    list_batches,
    require_batch,
    unfinished_batch,
)
from soliplex.ingester.lib.operations.deletion import (
    Deleted,
    cleanup_orphans,
    delete_document_uri_by_uri,
    delete_documents,
    delete_uris,
)
from soliplex.ingester.lib.operations.documents import (
    MOST_URIS,
    DocumentDetails,
    document_history,
    document_info,
    documents_of_batch,
    documents_of_source,
    find_documents,
    list_sources,
    record_histories,
    record_history,
    uris_below,
)
from soliplex.ingester.lib.operations.documents_of_runs import documents_of
from soliplex.ingester.lib.operations.errors import (
    BeingRemovedError,
    NotParsedError,
    VersionGoneError,
    VersionNotFoundError,
)
from soliplex.ingester.lib.operations.failures import (
    MOST_FAILURES,
    FailedRun,
    failures_of_group,
    failures_of_source,
    reasons_to_wait,
    with_nothing_to_index,
)
from soliplex.ingester.lib.operations.group_coverage import group_coverage
from soliplex.ingester.lib.operations.held import databases_holding
from soliplex.ingester.lib.operations.kinds import unread_kinds
from soliplex.ingester.lib.operations.loading import loaded_first
from soliplex.ingester.lib.operations.looking import MOST_SHOWN, look_for_documents
from soliplex.ingester.lib.operations.made import Made, stored_artifacts
from soliplex.ingester.lib.operations.rag_check import RagCheck, RagRepair, check_rag, repair_rag
from soliplex.ingester.lib.operations.rates import ProcessingRate, ProcessingRates, processing_rates
from soliplex.ingester.lib.operations.recording import Change, Uploaded
from soliplex.ingester.lib.operations.removals import finish_removals, removals_tended
from soliplex.ingester.lib.operations.source_status import SourceStatus, source_status
from soliplex.ingester.lib.operations.storage_check import StorageCheck, validate_storage
from soliplex.ingester.lib.operations.sync_state import delete_sync_state, get_sync_state, put_sync_state
from soliplex.ingester.lib.operations.uploading import NewDocument, upload_document, upload_received
from soliplex.ingester.lib.operations.versions import (
    diff_versions,
    diff_versions_as_json,
    list_versions,
    roll_back,
    version_text,
)
from soliplex.ingester.lib.operations.workflow_starts import (
    Started,
    check_target,
    start_document_workflow,
    start_workflows,
)

__all__ = [
    "MOST_FAILURES",
    "MOST_SHOWN",
    "MOST_URIS",
    "Activity",
    "BatchStatus",
    "BatchTimes",
    "BeingRemovedError",
    "Change",
    "Deleted",
    "DocumentCoverage",
    "DocumentDetails",
    "DocumentURINotFoundError",
    "FailedRun",
    "GroupCoverage",
    "Made",
    "NewDocument",
    "NotParsedError",
    "ProcessingRate",
    "ProcessingRates",
    "RagCheck",
    "RagRepair",
    "RolledBack",
    "SourceStatus",
    "Started",
    "StorageCheck",
    "StoredVersion",
    "Uploaded",
    "VersionDiff",
    "VersionGoneError",
    "VersionNotFoundError",
    "batch_status",
    "batch_times",
    "check_rag",
    "check_target",
    "cleanup_orphans",
    "create_batch",
    "databases_holding",
    "delete_document_uri_by_uri",
    "delete_documents",
    "delete_sync_state",
    "delete_uris",
    "diff_versions",
    "diff_versions_as_json",
    "document_history",
    "document_info",
    "documents_of",
    "documents_of_batch",
    "documents_of_source",
    "failures_of_group",
    "failures_of_source",
    "find_documents",
    "finish_removals",
    "get_batch",
    "get_sync_state",
    "group_coverage",
    "list_batches",
    "list_sources",
    "list_versions",
    "loaded_first",
    "look_for_documents",
    "processing_rates",
    "put_sync_state",
    "reasons_to_wait",
    "recent_runs",
    "record_histories",
    "record_history",
    "removals_tended",
    "repair_rag",
    "require_batch",
    "roll_back",
    "running_steps",
    "source_status",
    "start_document_workflow",
    "start_workflows",
    "stored_artifacts",
    "unfinished_batch",
    "unread_kinds",
    "upload_document",
    "upload_received",
    "uris_below",
    "validate_storage",
    "version_text",
    "with_nothing_to_index",
]
