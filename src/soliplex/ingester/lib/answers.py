"""What is answered to those who ask for documents, in this process or over HTTP: values, and nothing that makes them.

A client reads the same types from a server's JSON, and must not need a database or a parser for it: so this imports
nothing but the standard library and the enums.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from math import inf
from typing import Any, Final

from soliplex.ingester.lib.enums import ArtifactType, HistoryAction, RunStatus, Scope, SegmentStatus, WebhookStatus

MOST_HITS: Final = 100
"""Hits that one question is answered with."""


class SearchKind(StrEnum):
    """How to search."""

    VECTOR = "vector"
    TEXT = "text"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class KnownSource:
    """A source, and at how many URIs of it documents live."""

    source: str
    uris: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDocument:
    """A place where a document lives, and how the document fares."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012  for the OpenAPI document

    uri: str
    source: str
    title: str | None
    """What the document, or who sent it, says it is called."""
    batch_id: int | None
    version: int
    doc_hash: str
    mime_type: str
    file_size: int | None
    changed_at: datetime | None
    """When something last happened to it here."""
    run_id: int | None
    """The newest run of its content."""
    run_status: RunStatus | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDocuments:
    """Documents that fit, as far as one look went."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012  for the OpenAPI document

    items: list[FoundDocument]
    """May be empty although more follow: one look goes through a bounded number of documents."""
    next: str | None
    """Give it as `after` to go on; null where all were looked through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldIn:
    """A RAG database that holds a document, or should."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012  for the OpenAPI document

    db: str
    is_there: bool
    """Whether a search of this database can find the document."""
    title: str | None = None
    chunks: int = 0
    updated_at: datetime | None = None
    problem: str | None = None
    """Why the database could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HitPlace:
    """A place where the document of a hit lives."""

    uri: str | None
    source: str | None
    batch_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A piece of a document that fits a question, and where it stands."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012  for the OpenAPI document

    score: float
    """How well it fits, whatever else was found. `vector` and `hybrid`: the cosine of the angle between the vectors of
    question and chunk, from -1 to 1. `text`: BM25, from 0 up; comparable within one database. Hits of a hybrid search
    stand in the order of both ways fused, which need not be that of their scores."""
    snippet: str
    """The beginning of the passage, in one line."""
    content: str
    """The whole chunk, with its line breaks."""
    uri: str | None
    """One of the places where the document lives: within what was asked for, the one that came last."""
    title: str | None
    doc_hash: str | None
    source: str | None
    """The source of that place."""
    sources: list[str]
    """The sources of all places."""
    places: list[HitPlace]
    """All places where the document lives, the one that came last first."""
    headings: list[str]
    page_numbers: list[int]
    chunk_id: str | None
    """The id of the chunk in the document's artifact `chunks`. Documents that hold the same passage have it in common.
    """
    rag_chunk_id: str | None
    """The id of its row in the RAG database."""

    @property
    def pages(self) -> list[int]:
        """The pages it stands on, as people say it; programs read `page_numbers`."""
        return self.page_numbers


def problem_of_min_score(kind: SearchKind, min_score: float) -> str | None:
    """Why no hit of such a search can have a score that is compared with this; None if one can."""
    if kind is SearchKind.TEXT:
        is_possible, words = 0 <= min_score < inf, "the score of a search by words is BM25: give a number from 0 up"
    else:
        is_possible, words = (
            -1 <= min_score <= 1,
            f"the score of a {kind} search is a cosine: give a number from -1 to 1",
        )
    return None if is_possible else f"{min_score:g} is out of range; {words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """A version of a URI."""

    version: int
    hash: str
    action: HistoryAction
    process_date: datetime
    batch_id: int | None
    file_size: int | None
    mime_type: str | None
    is_current: bool
    is_stored: bool
    """Whether its bytes are there: only then can it be rolled back to."""
    artifacts: list[ArtifactType] = field(default_factory=list[ArtifactType])
    """The kinds of artifacts that are there, under whatever configuration."""
    rolled_back_to: int | None = None
    """The version whose content this one has again."""
    histmeta: dict[str, Any] = field(default_factory=dict[str, Any])


class ChunkChange(StrEnum):
    """What became of a chunk."""

    KEPT = "kept"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class TextDiff:
    """The lines that differ, as `diff -u` shows them."""

    added_lines: int
    removed_lines: int
    unified: str
    is_same_configuration: bool
    """Whether both were parsed in the same way; if not, the ways may differ and not the documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffedChunk:
    """A chunk of either version, and where it stands."""

    change: ChunkChange
    id: str
    headings: list[str]
    page_numbers: list[int]
    content: str | None
    """None for a chunk that is kept."""


@dataclass(frozen=True, slots=True)
class ChunkDiff:
    """The chunks of both versions in reading order; what is kept needs no new vector."""

    kept: int
    added: int
    removed: int
    chunks: list[DiffedChunk]
    is_same_configuration: bool


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """What differs between two versions of a URI."""

    uri: str
    source: str
    from_version: int
    from_hash: str
    to_version: int
    to_hash: str
    text: TextDiff
    chunks: ChunkDiff | None
    """None where one of the two was never cut into chunks."""


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that brings a RAG database up to date."""

    run_group_id: int
    workflow_run_id: int
    workflow_definition_id: str
    param_definition_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """What a roll back did."""

    uri: str
    source: str
    rolled_back_to: int
    version: int
    """The version the URI has now."""
    hash: str
    is_changed: bool
    """False where the URI had this content already: nothing was done."""
    runs: list[StartedRun] = field(default_factory=list[StartedRun])
    """Empty where neither content was ever processed: no RAG database has to be changed."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Steps of a group that will be executed later, and the one reason for which they were not, or not with success."""

    stage: str
    """The name of the steps in their workflow."""
    reason: str
    steps: int
    """How many they are."""


@dataclass(frozen=True, slots=True)
class DocumentCoverage:
    """The share of the words in a document's text layer that was read, and how many are missing."""

    run_id: int
    uri: str | None
    coverage: float
    missing_words: int


@dataclass(frozen=True, slots=True)
class GroupCoverage:
    """How much was read of the text layers of a group's documents."""

    documents: int
    words: int
    missing_words: int
    coverage: float | None
    """None where no document has a text layer."""
    lowest: list[DocumentCoverage]
    """Documents of which words are missing, those with the lowest share first."""
    warns_below: float = 0.97
    """The share below which the parse step warns: PARSE_COVERAGE_WARNING of who answers."""

    @property
    def read_in_part(self) -> list[DocumentCoverage]:
        """The documents that the parse step warns of."""
        return [each for each in self.lowest if each.coverage < self.warns_below]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTry:
    """A try to deliver a webhook."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012  for the OpenAPI document

    at: datetime
    seconds: float
    """How long it took."""
    status: int | None = None
    """What the receiver answered; None: it gave no whole answer."""
    answer: str | None = None
    """The first bytes of its answer."""
    error: str | None = None
    """What went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A webhook, and what has become of it."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012  for the OpenAPI document

    id: int
    webhook_id: str
    """What its receiver knows it by, the same at each try."""
    stream: str
    """Those of one stream are delivered one after the other, in the order of `sequence`."""
    sequence: int
    event_type: str
    url: str
    status: WebhookStatus
    run_id: int
    """The run that delivers it."""
    created_at: datetime
    expires_at: datetime
    """From then on, a try in vain is the last."""
    settled_at: datetime | None
    """When it was delivered or given up."""
    try_count: int
    """How often it was tried since it was enqueued, or last redelivered."""
    last_try: WebhookTry | None
    """What came of the last try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDetails(Webhook):
    """A webhook with all that is known of it."""

    body: str
    """What is sent, as JSON; of a long one the beginning."""
    body_length: int
    """How many characters of JSON it has."""
    secret: str | None
    """The name of the key that signs it; None: that of WEBHOOK_SIGNING_SECRET."""
    tries: list[WebhookTry]
    """The last tries, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redelivered:
    """Webhooks that are tried again."""

    webhooks: int


class JobStatus(StrEnum):
    """State of a job."""

    NEW = "NEW"
    """Accepted, and nothing of it was begun."""
    PENDING = "PENDING"
    """Was begun, ended, and is to be tried again."""
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    @property
    def is_success(self) -> bool:
        return self is JobStatus.COMPLETED

    @property
    def is_final(self) -> bool:
        return self in {JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED}


class DocumentStatus(StrEnum):
    """State of a job's document."""

    NEW = "NEW"
    """Not cut into articles: its job has not ended, or has failed and can be retried."""
    PROCESSED = "PROCESSED"
    CANCELED = "CANCELED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One document's way into articles."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012  for the OpenAPI document

    id: str
    ip: str | None
    """Who sent it."""
    documentid: int
    status: JobStatus
    created: datetime
    updated: datetime
    completed: datetime | None
    maxsize: int
    timeit: int | None
    """Milliseconds from its begin to its end, or until now."""
    callbackurl: str | None
    progress: int
    """From 0 to 100."""
    processing_stage: str | None
    """What is being done to the document; what was being done to it when the job failed or was cancelled."""
    errormessage: str | None
    """Why it failed, with the traceback; of a job that is completed, how many articles are FAILED."""
    warnings: list[str]
    """What may be missing or unusual in its articles."""
    correlation_id: str | None
    """The id of the request that made it, which is in the server's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDocument:
    """The document of a job. The same bytes in two jobs are two documents."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012  for the OpenAPI document

    id: int
    status: DocumentStatus
    created: datetime
    updated: datetime
    filename: str
    filesize: int
    mimetype: str
    lang: str | None = None
    """That most of its text is in, once it is PROCESSED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSegment:
    """One article."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012  for the OpenAPI document

    id: int
    documentid: int
    status: SegmentStatus
    body: str
    pagenr: int | None
    group: str
    title: str
    tags: list[str]
    lang: str | None
    created: datetime
    updated: datetime
    timeit: int | None
    ordinal: int
    errormessage: str | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """A job that was made."""

    success: bool
    jobid: str
    documentid: int


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs, the newest first, and how many there are in all."""

    items: list[Job]
    total: int
    page: int
    rows_per_page: int


@dataclass(frozen=True, slots=True)
class JobDocuments:
    """Documents of jobs, the newest first, and how many there are in all."""

    items: list[JobDocument]
    total: int
    page: int
    rows_per_page: int


@dataclass(frozen=True, slots=True)
class JobSegments:
    """The articles of a document, in its order."""

    segments: list[JobSegment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A named API key, without what it is made of."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012  for the OpenAPI document

    id: int
    name: str
    beginning: str
    """The first characters of the key, to tell keys apart by."""
    scopes: list[Scope]
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    """To within an hour."""
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedKey(Key):
    """A key that was just made."""

    key: str
    """The key itself. It is shown here, and nowhere ever again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """An act that stopped, repeated or deleted something, or gave or took access."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012  for the OpenAPI document

    id: int
    at: datetime
    actor: str
    """The name of the key, or the user."""
    via: str
    """`http` for requests to a server; `local` for commands and programs on its machine."""
    action: str
    """For requests the method and the route; for commands what they do."""
    details: dict[str, Any]
    """What it was done to."""
    outcome: str | None = None
    """`done`, or why it was not done; null while it is under way, and if the process died meanwhile."""
