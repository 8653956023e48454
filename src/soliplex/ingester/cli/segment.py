"""`si-cli segment`: files into articles."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from soliplex.ingester.cli.groups import tell
from soliplex.ingester.cli.ingest.choice import Server, open_target
from soliplex.ingester.cli.output import AsJson, console, counted, echo, fields_of, line, print_json
from soliplex.ingester.cli.stop_signals import STOPPED_BY_SIGNAL, stopping_on_signals
from soliplex.ingester.lib.errors import InvalidInputError

if TYPE_CHECKING:
    from rich.console import Console

    from soliplex.ingester.installation.local_files import LocalFile
    from soliplex.ingester.installation.protocol import Installation
    from soliplex.ingester.lib.answers import Job, JobSegment

LOOKS_EVERY: Final = 0.3
"""Seconds between looks at a job."""
LONGEST_SLUG: Final = 60


async def segment(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", exists=True, help="Files to take, and folders to walk.")
    ],
    *,
    server: Server = None,
    doctype: Annotated[
        str | None, typer.Option(metavar="KIND", help="pdf, docx, pptx, xlsx, txt, html or md. Default: as they look.")
    ] = None,
    article_size: Annotated[
        str, typer.Option(metavar="SIZE", help="small, medium, large or xlarge: 750, 1500, 5000 or 9000 characters.")
    ] = "medium",
    maxsize: Annotated[int, typer.Option(help="Characters that no article exceeds, if it can be cut.")] = 5000,
    usetags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Give these tags only; once for each of them.")
    ] = None,
    maxtags: Annotated[int, typer.Option(help="Most tags that an article gets.")] = 1,
    enable_ocr: Annotated[bool, typer.Option("--ocr", help="Read text in pictures of pages.")] = False,
    ocr_backend: Annotated[str | None, typer.Option(metavar="NAME", help="What reads pictures: rapidocr.")] = None,
    force_full_page_ocr: Annotated[
        bool, typer.Option("--force-ocr", help="Read every page as a picture, whatever text it holds.")
    ] = False,
    pdf_parsing_backend: Annotated[
        str | None, typer.Option(metavar="NAME", help="What reads PDFs: docling_parse or pypdfium2.")
    ] = None,
    process_images: Annotated[bool, typer.Option("--images", help="Have docling-serve describe pictures.")] = False,
    extra_instructions: Annotated[
        str | None, typer.Option("--instructions", metavar="TEXT", help="What a language model is told about tags.")
    ] = None,
    callbackurl: Annotated[str | None, typer.Option("--callback", metavar="URL", help="Send articles there.")] = None,
    outline: Annotated[bool, typer.Option("--outline", help="Print titles, and not what articles say.")] = False,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FOLDER", file_okay=False, help="Write each article to a file below it.")
    ] = None,
    keep: Annotated[bool, typer.Option(help="Leave jobs and articles in the database.")] = True,
    as_json: AsJson = False,
) -> None:
    """Cut documents into tagged articles, and print them.

    Ctrl-C cancels what has not ended. Exit code 1 if any document failed, 2 if an option is wrong, 130 if it was
    stopped.
    """
    options = _given(
        doctype=doctype,
        article_size=article_size,
        maxsize=maxsize,
        usetags=json.dumps(usetags) if usetags else None,
        maxtags=maxtags,
        enable_ocr=enable_ocr or force_full_page_ocr,
        ocr_backend=ocr_backend,
        force_full_page_ocr=force_full_page_ocr,
        pdf_parsing_backend=pdf_parsing_backend,
        process_images=process_images,
        extra_instructions=extra_instructions,
        callbackurl=callbackurl,
    )
    printer = _printer(as_json=as_json, outline=outline, markdown=markdown)
    files, unreadable = _files(paths)
    printer.prepare(files)
    async with open_target(server, tell) as target, AsyncExitStack() as working:
        with stopping_on_signals() as stopping:
            work = _Segmenting(target, options, printer, keep, stopping, failed=unreadable)
            await work.start(files)
            if work.started:
                await working.enter_async_context(target.working())
            await work.finish()
    printer.end()
    raise typer.Exit(STOPPED_BY_SIGNAL if stopping.is_set() else int(work.failed > 0))


def _given(**options: object) -> dict[str, str]:
    """Options as the fields of a form; what is not given stays out."""
    return {name: _text(value) for name, value in options.items() if value is not None}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _files(paths: Sequence[Path]) -> tuple[list[LocalFile], int]:
    """The files, and how many things could not be read, each of which is told."""
    from soliplex.ingester.installation.local_files import LocalFile, Rules, Unreadable, walk

    files, unreadable = list[LocalFile](), 0
    for found in walk(paths, Rules()):
        if isinstance(found, LocalFile):
            files.append(found)
        elif isinstance(found, Unreadable):
            unreadable += 1
            echo(f"✗ {found.path}: {found.reason}", err=True)
    if not files and not unreadable:
        raise InvalidInputError("PATH", "there are no files in it")
    return files, unreadable


@dataclass(slots=True)
class _Segmenting:
    """The jobs of one command."""

    target: Installation
    options: dict[str, str]
    printer: Printer
    keep: bool
    stopping: asyncio.Event
    failed: int = 0
    started: list[tuple[LocalFile, str]] = field(default_factory=list[tuple["LocalFile", str]])
    """Files, each with the id of its job."""

    async def start(self, files: Sequence[LocalFile]) -> None:
        from soliplex.ingester.installation.values import FileRefusedError

        for file in files:
            if self.stopping.is_set():
                return
            try:
                accepted = await self.target.start_job(file, self.options)
            except FileRefusedError as error:
                self._fail(file, str(error))
            else:
                self.started.append((file, accepted.jobid))

    async def finish(self) -> None:
        """Wait for the jobs, one after the other, and print what came of each."""
        for number, (file, job_id) in enumerate(self.started):
            job = await self._ended(job_id)
            if job is None:
                await self._cancel(self.started[number:])
                return
            await self._print(file, job)
            if not self.keep:
                await self.target.delete_job(job_id)

    async def _ended(self, job_id: str) -> Job | None:
        """The job, once it has ended; None if the command is to stop before that."""
        with console(stderr=True).status("") as status:
            while not self.stopping.is_set():
                job = await self.target.job(job_id)
                if job.status.is_final:
                    return job
                status.update(line(f"{job.processing_stage or 'waiting'} … {job.progress} %"))
                await _pause(self.stopping, LOOKS_EVERY)
        return None

    async def _print(self, file: LocalFile, job: Job) -> None:
        articles = await self.target.articles(job.documentid)
        for warning in job.warnings:
            echo(f"! {file.path.name}: {warning}", err=True)
        if not job.status.is_success:
            reason = (job.errormessage or "").partition("\n")[0]
            self._fail(file, f"{job.status}{f': {reason}' if reason else ''} (job {job.id})")
        elif job.errormessage:
            self._fail(file, job.errormessage)
        self.printer.add(file, job, articles)

    async def _cancel(self, jobs: Sequence[tuple[LocalFile, str]]) -> None:
        for _, job_id in jobs:
            await self.target.cancel_job(job_id)
        echo(f"stopped: {counted(len(jobs), 'job')} cancelled", err=True)

    def _fail(self, file: LocalFile, reason: str) -> None:
        self.failed += 1
        echo(f"✗ {file.path.name}: {reason}", err=True)


async def _pause(until: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await until.wait()
    except TimeoutError:
        return


class Printer:
    """Shows the articles of documents."""

    def prepare(self, files: Sequence[LocalFile]) -> None:
        """Refuse, before any job is started, what would keep the articles from being shown."""

    def add(self, file: LocalFile, job: Job, articles: Sequence[JobSegment]) -> None:
        """Show the articles of one document."""
        raise NotImplementedError

    def end(self) -> None:
        """Say that no more documents follow."""


def _printer(*, as_json: bool, outline: bool, markdown: Path | None) -> Printer:
    if markdown is not None:
        if as_json or outline:
            raise typer.BadParameter("writes files; leave out --json and --outline", param_hint="--markdown")
        return _Files(markdown)
    return _Json() if as_json else _Terminal(outline=outline)


class _Json(Printer):
    def __init__(self) -> None:
        self._documents: list[dict[str, Any]] = []

    def add(self, file: LocalFile, job: Job, articles: Sequence[JobSegment]) -> None:
        told = {"file": str(file.path), "job": fields_of(job), "segments": [fields_of(each) for each in articles]}
        self._documents.append(told)

    def end(self) -> None:
        print_json(self._documents)


class _Terminal(Printer):
    def __init__(self, *, outline: bool) -> None:
        self._outline = outline
        self._out: Console = console()

    def add(self, file: LocalFile, job: Job, articles: Sequence[JobSegment]) -> None:
        if not articles and not job.status.is_success:
            return  # what went wrong is told already
        self._out.print(line(f"{file.path.name}: {counted(len(articles), 'article')}", "bold underline"))
        for article in articles:
            if not self._outline:
                self._out.print()
            self._out.print(line(f"{article.ordinal + 1:>3}  {article.title}", "bold"))
            self._out.print(line(f"     {facts_of(article)}", "dim"))
            if not self._outline:
                self._out.print(article.body.strip("\n"), soft_wrap=not self._out.is_terminal)
        self._out.print()


class _Files(Printer):
    """Writes a file for each article, below a folder for each document."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folders: dict[Path, Path] = {}

    def prepare(self, files: Sequence[LocalFile]) -> None:
        for file in files:
            names = chain((file.path.stem, file.path.name), (f"{file.path.name}-{number}" for number in count(2)))
            taken = set(self._folders.values())
            folder = next(self._folder / name for name in names if self._folder / name not in taken)
            if folder.exists() and any(folder.iterdir()):
                # Articles of an earlier time would stand among the new ones.
                raise InvalidInputError("markdown", f"there are files in {folder}; delete them, or name another folder")
            self._folders[file.path] = folder

    def add(self, file: LocalFile, job: Job, articles: Sequence[JobSegment]) -> None:
        if not articles and not job.status.is_success:
            return
        folder = self._folders[file.path]
        folder.mkdir(parents=True, exist_ok=True)
        for article in articles:
            name = f"{article.ordinal + 1:03}-{slug_of(article.title)}.md"
            (folder / name).write_text(as_markdown(article), "utf-8")
        echo(f"{file.path.name}: {counted(len(articles), 'article')} in {folder}")


def facts_of(article: JobSegment) -> str:
    """What is known of an article, in a line."""
    page = f"page {article.pagenr}" if article.pagenr is not None else None
    told = (page, article.lang, ", ".join(article.tags), article.group, article.errormessage)
    return " · ".join(each for each in told if each)


def as_markdown(article: JobSegment) -> str:
    """The article with what is known of it in front, as many programs read it."""
    known = {
        "title": article.title,
        "group": article.group,
        "page": article.pagenr,
        "lang": article.lang,
        "tags": article.tags,
        "status": article.status.value,
    }
    # A JSON value is a YAML value, whatever characters it holds.
    front = "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in known.items())
    return f"---\n{front}---\n\n{article.body.strip()}\n"


def slug_of(title: str) -> str:
    """A title as part of a file's name."""
    words = re.sub(r"[\W_]+", "-", title.lower()).strip("-")
    return words[:LONGEST_SLUG].rstrip("-") or "article"
