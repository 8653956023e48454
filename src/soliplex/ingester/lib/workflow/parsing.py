"""The parse step: from bytes to Markdown and structure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from soliplex.ingester.lib.models import ArtifactType, Document, HistoryAction, RunStep
from soliplex.ingester.lib.operations import record_history
from soliplex.ingester.lib.parsing import Parsed, ParseOptions, chosen_parser_name, parser_named
from soliplex.ingester.lib.parsing.formats import media_type
from soliplex.ingester.lib.parsing.pages import merged, page_ranges
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.errors import HandlerCrashed
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.workflow.artifacts import SKIPPED, are_there, required, write_json

_log = logging.getLogger(__name__)

_PARSE: Final = "soliplex.ingester.lib.parsing.registry.parse_blocking"
PDF: Final = "application/pdf"
SECOND_BACKEND: Final = "pypdfium2"
"""Reads PDFs that crash the first, with less of their structure."""
_COUNT: Final = "soliplex.ingester.lib.parsing.pages.count_pages"


async def parse_document(
    run_step: RunStep,
    doc: Document | None,
    doc_hash: str,
    step_params: Mapping[str, Any],
    processes: ProcessPool,
) -> dict[str, Any]:
    """Parse the document as a whole."""
    return await _parse_and_keep(run_step, doc, doc_hash, step_params, processes, split=False)


async def split_parse_document(
    run_step: RunStep,
    doc: Document | None,
    doc_hash: str,
    step_params: Mapping[str, Any],
    processes: ProcessPool,
) -> dict[str, Any]:
    """Parse a long PDF in parts of `pages_per_part` pages, beside one another, and put them together again."""
    return await _parse_and_keep(run_step, doc, doc_hash, step_params, processes, split=True)


async def _parse_and_keep(
    run_step: RunStep,
    doc: Document | None,
    doc_hash: str,
    step_params: Mapping[str, Any],
    processes: ProcessPool,
    *,
    split: bool,
) -> dict[str, Any]:
    config_id = run_step.step_config_id
    if await are_there(doc_hash, config_id, ArtifactType.PARSED_MD, ArtifactType.PARSED_JSON):
        return SKIPPED
    document, options = required(doc, doc_hash), ParseOptions.read(step_params)
    async with get_artifacts().document_file(doc_hash) as path:
        parse = _parse_in_parts if split else _parse
        parsed = await parse(path, document.mime_type, options, processes)
    return await _keep(doc_hash, config_id, parsed)


async def _parse_in_parts(path: Path, mime_type: str, options: ParseOptions, processes: ProcessPool) -> Parsed:
    counted = await processes.run(_COUNT, {"path": path, "mime_type": mime_type})
    pages = cast("int | None", counted)
    if pages is None or options.page_range is not None or pages <= options.pages_per_part:
        return await _parse(path, mime_type, options, processes)
    ranges = page_ranges(pages, options.pages_per_part)
    async with asyncio.TaskGroup() as group:
        parts = [
            group.create_task(_parse(path, mime_type, options.model_copy(update={"page_range": each}), processes))
            for each in ranges
        ]
    return await asyncio.to_thread(merged, [part.result() for part in parts])


async def _parse(path: Path, mime_type: str, options: ParseOptions, processes: ProcessPool) -> Parsed:
    """By a server, or in a process that can be killed."""
    name = chosen_parser_name(options)
    if name == "docling-serve":
        return await parser_named(name).parse(path, mime_type=mime_type, options=options)
    try:
        return await _parse_in_process(name, path, mime_type, options, processes)
    except HandlerCrashed:
        if media_type(mime_type) != PDF or options.pdf_backend == SECOND_BACKEND:
            raise
        _log.warning("%s crashed the parser's process; it is read in another way", path.name)
        other = options.model_copy(update={"pdf_backend": SECOND_BACKEND})
        return await _parse_in_process(name, path, mime_type, other, processes)


async def _parse_in_process(
    name: str, path: Path, mime_type: str, options: ParseOptions, processes: ProcessPool
) -> Parsed:
    arguments = {"parser": name, "path": path, "mime_type": mime_type, "options": options}
    return cast("Parsed", await processes.run(_PARSE, arguments))


async def _keep(doc_hash: str, config_id: int, parsed: Parsed) -> dict[str, Any]:
    await write_json(doc_hash, ArtifactType.PARSED_JSON, config_id, parsed.document)
    await get_artifacts().write(doc_hash, ArtifactType.PARSED_MD, config_id, parsed.markdown.encode("utf-8", "replace"))
    told = {"pages": parsed.pages, "characters": len(parsed.markdown), "title": parsed.title}
    result = {name: value for name, value in told.items() if value is not None}
    await record_history(doc_hash, HistoryAction.PARSED, meta=result)
    return {**result, **({"warnings": list(parsed.warnings)} if parsed.warnings else {})}
