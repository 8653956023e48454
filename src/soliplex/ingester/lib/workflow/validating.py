"""The validate step: whether the document can be read, and what it says about itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from soliplex.ingester.lib.models import Database, Document, DocumentURI, RunStep
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import single
from soliplex.ingester.lib.parsing.formats import XML, is_text, media_type
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.validation import Validated, validate
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.workflow.document_processes import (
    Share,
    StepTime,
    read_in_process,
    time_to_read,
    tried_twice,
)
from soliplex.ingester.lib.workflow.sql import SQL
from soliplex.ingester.lib.workflow.step_artifacts import required

SHORT: Final = 1 << 20
"""Bytes of a text that are looked at in a few milliseconds: less than a process takes to be asked."""
_VALIDATE: Final = "soliplex.ingester.lib.validation.checking.validate_blocking"


async def validate_document(
    run_step: RunStep,
    doc: Document | None,
    doc_hash: str,
    places: Sequence[DocumentURI],
    processes: ProcessPool,
    time_limit: float | None = None,
) -> dict[str, Any]:
    """See that the document can be read; what it says about itself joins its metadata."""
    document = required(doc, doc_hash)
    name = Path(places[0].uri).name if places else doc_hash
    time = StepTime(time_limit)
    with tried_twice(run_step):
        async with get_artifacts().document_file(doc_hash) as path, time.within(Share.ALL_READING):
            validated = await _validate(path, name, document, processes)
    meta = {**validated.facts, **document.doc_meta}
    if meta != document.doc_meta or validated.mime_type != document.mime_type:
        call = SQL.set_document_facts(hash=doc_hash, mime_type=validated.mime_type, meta=Json(meta))
        await Database.transact(single(call))
    return {"mime_type": validated.mime_type, **validated.facts}


async def _validate(path: Path, name: str, document: Document, processes: ProcessPool) -> Validated:
    """Validate in a process of its own, which a harmful file may crash; short texts, which cannot do harm, here."""
    kind = media_type(document.mime_type)
    # XML is checked by a parser written in C.
    if is_text(kind) and kind not in XML and document.file_size is not None and document.file_size <= SHORT:
        return await validate(path, name=name, mime_type=document.mime_type)
    arguments = {"path": path, "name": name, "mime_type": document.mime_type}
    seconds = time_to_read(path, document.mime_type)
    return cast("Validated", await read_in_process(processes, _VALIDATE, arguments, seconds=seconds))
