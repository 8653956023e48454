"""From an upload to a job: bytes first, made durable under their hash, then document and run in one transaction."""

from __future__ import annotations

import asyncio
import secrets
import time
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from soliplex.ingester.lib.answers import Accepted
from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.mime import detect_mime_type, needs_file
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.operations.recording import Arrival, recorded
from soliplex.ingester.lib.operations.uploading import keep_received
from soliplex.ingester.lib.operations.workflow_starts import run_params
from soliplex.ingester.lib.parsing.formats import media_type
from soliplex.ingester.lib.storage import Received, get_artifacts
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.operations.definitions import pin
from soliplex.ingester.lib.wf.operations.runs import NewRun, Start, start_one
from soliplex.ingester.lib.wf.wakeup import work_is_ready
from soliplex.ingester.segmenter.jobs.job_options import DOCTYPES, BadFieldError, JobOptions, checked_type
from soliplex.ingester.segmenter.jobs.sql import SQL
from soliplex.ingester.segmenter.jobs.workflow import WORKFLOW_ID, segment_workflow

SOURCE: Final = "segmenter"
"""The source of all documents of jobs."""
NAMELESS: Final = "document"
LONGEST_FILENAME: Final = 200


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends a job."""

    ip: str | None = None
    correlation_id: str | None = None


def safe_filename(name: str) -> str:
    """The name of a file without folders, and without what could steer a terminal or a file system."""
    last = name.replace("\\", "/").rpartition("/")[2]
    plain = "".join(each for each in unicodedata.normalize("NFC", last) if unicodedata.category(each)[0] != "C")
    stem, dot, extension = plain.strip().lstrip(".").rpartition(".")
    short = (stem[: LONGEST_FILENAME - len(extension[:20]) - 1] + dot + extension[:20]).strip()
    return short or NAMELESS


async def start_job(
    received: Received, *, filename: str, options: JobOptions, sender: Sender, now: datetime | None = None
) -> Accepted:
    """Make a job of a file that has arrived. Whatever is refused leaves nothing behind; its spool is gone."""
    artifacts = get_artifacts()
    try:
        see_the_workflow_is_ours()
        if received.held is not None and needs_file(received.head):
            received = await artifacts.as_file(received)
        name = safe_filename(filename)
        found, wanted = await _types_of(received, name, options)
        # The validate step tells the kind of a text by its name: a kind that the sender names is made part of the name.
        place = name if found == wanted else f"{name}.{options.doctype}"
        arrival = _Arriving(new_job_id(), name, place, wanted, options, sender, await pin(segment_workflow()))
    except BaseException:
        await artifacts.discard(received)
        raise
    script = arrival.script
    accepted = await keep_received(received, lambda: Database.transact(script(received, now or utcnow())))
    work_is_ready()
    return accepted


def see_the_workflow_is_ours() -> None:
    """Refuse to start jobs where a file defines another workflow under the name of theirs."""
    known = get_registry().find_workflow(WORKFLOW_ID)
    if known is not None and known.source_path is not None:
        problem = f"{known.source_path} defines a workflow {WORKFLOW_ID!r}, which is the name of that of jobs"
        raise ConfigurationError("WORKFLOW_DIR", problem, "give it another id")


def new_job_id() -> str:
    """An id that nobody can guess. Those of later jobs sort after it, so that an index holds jobs in their order."""
    number = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
    return f"{number:032x}"


async def _types_of(received: Received, name: str, options: JobOptions) -> tuple[str, str]:
    """The type that the file seems to have, and the type as which it is to be read."""
    if not received.size:
        raise BadFieldError("uploadfile", "is empty")
    found = await asyncio.to_thread(detect_mime_type, received.path, name, head=received.head)
    return found, checked_type(options, found)


@dataclass(frozen=True, slots=True)
class _Arriving:
    """A job on its way into the database."""

    job_id: str
    filename: str
    place: str
    mime_type: str
    options: JobOptions
    sender: Sender
    definition_id: int | None

    @property
    def _uri(self) -> str:
        return f"{SOURCE}:{self.job_id}/{self.place}"

    def script(self, received: Received, now: datetime) -> Script[Accepted]:
        arrival = Arrival(
            doc_hash=received.hash,
            size=received.size,
            mime_type=self.mime_type,
            uri=self._uri,
            source=SOURCE,
            batch_id=None,
            meta={},
        )
        (outcome,) = yield from recorded([arrival], now, patience=None)
        if isinstance(outcome, Exception):
            raise outcome
        yield from self._see_type(received.hash)
        start = Start(
            workflow=segment_workflow(), params=self.options.parameters(), now=now, definition_id=self.definition_id
        )
        params = run_params(start, SOURCE, self._facts(outcome.uri_id))
        yield from start_one(start, self.filename, NewRun(doc_id=received.hash, params=params, key=self.job_id))
        return Accepted(success=True, jobid=self.job_id, documentid=outcome.uri_id)

    def _see_type(self, doc_hash: str) -> Script[None]:
        """Refuse a type that differs from that of the same bytes which are stored already: they have one type."""
        rows = yield SQL.mime_type_of_document(hash=doc_hash)
        stored = media_type(rows[0]["mime_type"])
        if self.options.doctype is not None and stored != DOCTYPES[self.options.doctype]:
            problem = f"is {self.options.doctype!r}, and the same bytes are stored as {stored}"
            raise BadFieldError("doctype", f"{problem}; leave doctype out, or delete what has them")

    def _facts(self, document_id: int) -> dict[str, Any]:
        return {
            "documentid": document_id,
            "uri": self._uri,
            "filename": self.filename,
            "ip": self.sender.ip,
            "correlation_id": self.sender.correlation_id,
            "options": self.options.model_dump(mode="json"),
        }
