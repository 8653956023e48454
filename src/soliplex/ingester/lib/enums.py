"""The closed sets of values in the schema. Each is a StrEnum, and a CHECK in the database holds the same values."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class RunStatus(StrEnum):
    """State of a step, a run, a group or the delivery of an event."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    ERROR = "ERROR"
    """Failed, but will be tried again."""
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_final(self) -> bool:
        return self in FINAL_STATUSES


FINAL_STATUSES: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})

VALID_TRANSITIONS: Final = frozenset(
    {
        (RunStatus.PENDING, RunStatus.RUNNING),  # claim
        (RunStatus.ERROR, RunStatus.RUNNING),  # claim of a retry
        (RunStatus.RUNNING, RunStatus.COMPLETED),
        (RunStatus.RUNNING, RunStatus.ERROR),
        (RunStatus.RUNNING, RunStatus.PENDING),  # released, or its worker died
        (RunStatus.ERROR, RunStatus.FAILED),  # the last attempt is recorded as ERROR, then FAILED, in one transaction
        (RunStatus.PENDING, RunStatus.CANCELLED),
        (
            RunStatus.ERROR,
            RunStatus.CANCELLED,
        ),  # a parallel branch waiting for its retry when the run fails or is cancelled
        (RunStatus.FAILED, RunStatus.PENDING),  # manual retry
        (RunStatus.CANCELLED, RunStatus.PENDING),  # manual retry
        (RunStatus.ERROR, RunStatus.PENDING),  # manual retry, hard
    }
)
"""Every change of a step's status the database lets through; a trigger refuses the rest."""


class WorkflowStepType(StrEnum):
    """The step types the product ships handlers for. A workflow may name others of its own."""

    INGEST = "ingest"
    VALIDATE = "validate"
    PARSE = "parse"
    CHUNK = "chunk"
    EMBED = "embed"
    STORE = "store"
    ENRICH = "enrich"
    ROUTE = "route"


class ArtifactType(StrEnum):
    """What is stored of a document, by the step that makes it."""

    DOC = "document"
    PARSED_MD = "parsed_markdown"
    PARSED_JSON = "parsed_json"
    CHUNKS = "chunks"
    EMBEDDINGS = "embeddings"
    RAG = "rag"
    CUSTOM = "custom"
    """What a handler of the user's own makes."""


class LifeCycleEvent(StrEnum):
    """Moments in the life of a group, a run (item) and a step at which handlers are called."""

    GROUP_START = "group_start"
    GROUP_END = "group_end"
    ITEM_START = "item_start"
    ITEM_END = "item_end"
    ITEM_FAILED = "item_failed"
    STEP_START = "step_start"
    STEP_END = "step_end"
    STEP_FAILED = "step_failed"


class SegmentStatus(StrEnum):
    """State of an article that a document was cut into."""

    PENDING = "PENDING"
    """Cut, and not tagged yet: nobody is shown it."""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class ResourceLockKind(StrEnum):
    """Who holds a resource lock."""

    WORKER = "worker"
    CLI = "cli"
    WEB = "web"
    LIFECYCLE = "lifecycle"


class DefinitionKind(StrEnum):
    """What a stored definition describes."""

    WORKFLOW = "workflow"
    PARAMS = "params"
    """A parameter set."""


class Isolation(StrEnum):
    """Where a handler runs."""

    INLINE = "inline"
    """In the worker: an async handler on its loop, a plain one in a thread."""
    PROCESS = "process"
    """In a process of its own that can be killed and has a memory limit."""
    RAY = "ray"
    """A word of the schema; no worker runs such steps yet."""


class HistoryAction(StrEnum):
    """What happened to a document at a URI."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    PARSED = "parsed"
    CHUNKED = "chunked"
    EMBEDDED = "embedded"
    INGESTED = "ingested"


class WebhookStatus(StrEnum):
    """How far a webhook has come."""

    PENDING = "PENDING"
    """It waits for its turn, for another try, or for an answer."""
    DELIVERED = "DELIVERED"
    DEAD = "DEAD"
    """A dead letter: nobody tries it any more, unless it is redelivered."""


class Scope(StrEnum):
    """What the bearer of a key may do."""

    READ = "read"
    """See everything but keys and the audit log."""
    INGEST = "ingest"
    """Bring documents in, and start work on them."""
    OPERATE = "operate"
    """Stop, repeat and delete; includes `read`."""
    ADMIN = "admin"
    """Everything, keys too."""


class Standing(StrEnum):
    """What has become of an optimization of a flow."""

    APPLIED = "applied"
    """In use, and not yet compared."""
    KEPT = "kept"
    TAKEN_BACK = "taken_back"
    """It made things worse."""
    SUPERSEDED = "superseded"
    """Somebody defined the flow anew before it could be compared."""
