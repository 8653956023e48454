"""The parse step: from bytes to Markdown and structure.

    in a process of the worker ──it crashes, PDF──▶ the same by PDFium ──it crashes──▶ the bare text
            └──────────it stalls, or fills its memory──────────────────────────────────────▲

A document that no way leads through fails with what happened on the first. The first way has three fifths of the step's
time. What it has not read by then, of a PDF in parts whichever parts these are, is read as bare text: to begin anew
with the next attempt would take as long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import ArtifactType, Document, HistoryAction, RunStep
from soliplex.ingester.lib.operations import record_history
from soliplex.ingester.lib.parsing import ParseOptions, chosen_parser_name, parser_named
from soliplex.ingester.lib.parsing.errors import Harm, HarmfulDocumentError
from soliplex.ingester.lib.parsing.formats import media_type
from soliplex.ingester.lib.parsing.long_documents import PageRange, page_ranges
from soliplex.ingester.lib.parsing.parsed_files import About, ParsedFiles, write_files
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.wf.progress import Progress
from soliplex.ingester.lib.workflow.document_processes import (
    Share,
    StepTime,
    read_in_process,
    time_to_read,
    tried_twice,
)
from soliplex.ingester.lib.workflow.step_artifacts import SKIPPED, are_there, each_alone, required

_log = logging.getLogger(__name__)

_PARSE: Final = "soliplex.ingester.lib.parsing.parsed_files.parse_to_files"
_MERGE: Final = "soliplex.ingester.lib.parsing.parsed_files.merge_files"
_COUNT: Final = "soliplex.ingester.lib.parsing.long_documents.count_pages"
PDF: Final = "application/pdf"
_MADE: Final = {ArtifactType.PARSED_JSON: "document", ArtifactType.PARSED_MD: "markdown"}
IN_HAND: Final = 256 << 10
"""Bytes of a parsed document that a process hands over. Longer ones it leaves in files: memory is the worker's."""
SECOND_BACKEND: Final = "pypdfium2"
"""Reads PDFs that crash the first, with less of their structure."""


async def parse_document(
    run_step: RunStep,
    doc: Document | None,
    doc_hash: str,
    step_params: Mapping[str, Any],
    processes: ProcessPool,
    time_limit: float | None = None,
) -> dict[str, Any]:
    """Parse the document as a whole."""
    means = _Means(processes, StepTime(time_limit))
    return await _parse_and_keep(run_step, doc, doc_hash, step_params, means, split=False)


async def split_parse_document(
    run_step: RunStep,
    doc: Document | None,
    doc_hash: str,
    step_params: Mapping[str, Any],
    processes: ProcessPool,
    progress: Progress,
    time_limit: float | None = None,
) -> dict[str, Any]:
    """Parse a long PDF in parts of `pages_per_part` pages, beside one another, and put them together again."""
    means = _Means(processes, StepTime(time_limit), progress)
    return await _parse_and_keep(run_step, doc, doc_hash, step_params, means, split=True)


class _Means(NamedTuple):
    """What an attempt has to work with."""

    processes: ProcessPool
    time: StepTime
    progress: Progress | None = None
    """Who is told how many parts of a long document are done."""


async def _parse_and_keep(
    run_step: RunStep,
    doc: Document | None,
    doc_hash: str,
    step_params: Mapping[str, Any],
    means: _Means,
    *,
    split: bool,
) -> dict[str, Any]:
    config_id = run_step.step_config_id
    if await are_there(doc_hash, config_id, ArtifactType.PARSED_MD, ArtifactType.PARSED_JSON):
        return SKIPPED
    document, options = required(doc, doc_hash), ParseOptions.read(step_params)
    async with get_artifacts().document_file(doc_hash) as path, _parsing(path, document.mime_type, means) as job:
        with tried_twice(run_step):
            files, about = await (job.parse_in_parts(options) if split else job.parse(options))
        return await _keep(doc_hash, config_id, files, about)


@asynccontextmanager
async def _parsing(path: Path, mime_type: str, means: _Means) -> AsyncGenerator[_Parsing]:
    job = _Parsing(path, mime_type, means)
    try:
        yield job
    finally:
        if job.has_files:
            await asyncio.to_thread(job.remove_files)


type Made = tuple[ParsedFiles, About]


@dataclass(slots=True)
class _Parsing:
    """One document on its way, and the files that are made of it."""

    path: Path
    mime_type: str
    means: _Means
    _files: list[ParsedFiles] = field(default_factory=list[ParsedFiles])

    async def parse(self, options: ParseOptions, *, in_hand: int = IN_HAND) -> Made:
        """Parse by a server, or in a process that can be killed. A short result comes back without files."""
        into, name = self._new_files(), chosen_parser_name(options)
        if name == "docling-serve":
            async with self.means.time.within(Share.ALL_READING):
                parsed = await parser_named(name).parse(self.path, mime_type=self.mime_type, options=options)
            about = await asyncio.to_thread(write_files, parsed, into, in_hand=in_hand)
        else:
            about = await self._parse_here(name, options, into, in_hand=in_hand)
        if about.contents is not None:
            self._files.remove(into)
        return into, about

    async def parse_in_parts(self, options: ParseOptions) -> Made:
        pages = cast("int | None", await self._read(_COUNT, path=self.path, mime_type=self.mime_type))
        if pages is None or options.page_range is not None or pages <= options.pages_per_part:
            return await self.parse(options)
        parts = await self._parse_parts(page_ranges(pages, options.pages_per_part), options)
        into = self._new_files()
        return into, cast("About", await self._read(_MERGE, parts=parts, into=into))

    @property
    def has_files(self) -> bool:
        return bool(self._files)

    def remove_files(self) -> None:
        for path in (path for files in self._files for path in files):
            path.unlink(missing_ok=True)

    def _new_files(self) -> ParsedFiles:
        spool = get_artifacts().spool
        files = ParsedFiles(spool.new_path(), spool.new_path())
        self._files.append(files)
        return files

    async def _parse_parts(self, ranges: Sequence[PageRange], options: ParseOptions) -> list[Made]:
        settings = get_settings()
        at_once = asyncio.Semaphore(max(settings.isolation_processes, settings.docling_concurrency))
        done = 0

        async def parse_part(each: PageRange) -> Made | PermanentError:
            nonlocal done
            async with at_once:
                try:
                    return await self.parse(options.model_copy(update={"page_range": each}), in_hand=0)
                except PermanentError as exc:
                    return exc
                finally:
                    done += 1
                    self._tell(done, len(ranges))

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(parse_part(each)) for each in ranges]
        except ExceptionGroup as exc:
            raise exc.exceptions[0] from exc  # what ended the first reader ended the others, too
        return _readable(dict(zip(ranges, [task.result() for task in tasks], strict=True)))

    def _tell(self, done: int, parts: int) -> None:
        if self.means.progress is not None:
            self.means.progress(done / parts, f"{done} of {parts} parts")

    async def _parse_here(self, name: str, options: ParseOptions, into: ParsedFiles, *, in_hand: int) -> About:
        try:
            return await self._parse_once(name, options, into, in_hand, Share.FIRST_WAY)
        except HarmfulDocumentError as first:
            for other_name, other_options in _other_ways(name, options, first.harm, media_type(self.mime_type)):
                _log.warning("%s %s its parser; it is read in another way", self.path.name, first.harm)
                try:
                    about = await self._parse_once(other_name, other_options, into, in_hand, Share.OTHER_WAYS)
                except PermanentError:
                    continue
                return replace(about, warnings=(*about.warnings, _warning(first.harm, other_name)))
            raise

    async def _parse_once(
        self, name: str, options: ParseOptions, into: ParsedFiles, in_hand: int, share: Share
    ) -> About:
        about = {"path": self.path, "mime_type": self.mime_type, "options": options}
        return cast("About", await self._read(_PARSE, share, parser=name, into=into, in_hand=in_hand, **about))

    async def _read(self, function: str, share: Share = Share.ALL_READING, **arguments: object) -> object:
        seconds = time_to_read(self.path, self.mime_type)
        async with self.means.time.within(share):
            return await read_in_process(self.means.processes, function, arguments, seconds=seconds)


def _other_ways(name: str, options: ParseOptions, harm: Harm, kind: str) -> Iterator[tuple[str, ParseOptions]]:
    # What stalls one reader of a page is likely to stall the other, and an hour is gone.
    if harm is Harm.CRASHED and kind == PDF and name != "fast" and options.pdf_backend != SECOND_BACKEND:
        yield name, options.model_copy(update={"pdf_backend": SECOND_BACKEND})
    if name != "fast":
        yield "fast", options


def _warning(harm: Harm, name: str) -> str:
    left_out = "its text is without structure" if name == "fast" else "less of its structure was found"
    return f"the document {harm} its parser; {left_out}"


def _readable(parts: Mapping[PageRange, Made | PermanentError]) -> list[Made]:
    """The parts that could be read. The text of the last of them names the parts that could not."""
    failures = {pages: part for pages, part in parts.items() if isinstance(part, PermanentError)}
    made = [part for part in parts.values() if not isinstance(part, PermanentError)]
    if not made:
        raise next(iter(failures.values()))
    warnings = tuple(f"pages {first} to {last} could not be read: {exc}" for (first, last), exc in failures.items())
    files, about = made[-1]
    return [*made[:-1], (files, replace(about, warnings=(*about.warnings, *warnings)))]


async def _keep(doc_hash: str, config_id: int, files: ParsedFiles, about: About) -> dict[str, Any]:
    async def write(kind: ArtifactType) -> None:
        artifacts, name = get_artifacts(), _MADE[kind]
        if about.contents is not None:
            await artifacts.write(doc_hash, kind, config_id, getattr(about.contents, name))
        else:
            await artifacts.write_file(doc_hash, kind, config_id, getattr(files, name))

    # Both writes wait for the disk, so they are done at the same time.
    for failure in await each_alone(write, _MADE):
        if failure is not None:
            raise failure
    told = {"pages": about.pages, "characters": about.characters, "title": about.title}
    result = {name: value for name, value in told.items() if value is not None}
    result |= about.coverage.as_json() if about.coverage else {}
    await record_history(doc_hash, HistoryAction.PARSED, meta=result)
    warnings = [*about.warnings, *_too_little(doc_hash, about)]
    return {**result, **({"warnings": warnings} if warnings else {})}


def _too_little(doc_hash: str, about: About) -> Iterator[str]:
    warning = about.coverage.warning(get_settings().parse_coverage_warning) if about.coverage else None
    if warning is not None:
        _log.warning("of document %s %s", doc_hash, warning)
        yield warning
