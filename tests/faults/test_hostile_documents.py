"""Documents made to harm, through the whole pipeline, by a worker with real processes.

Each ends, as completed or failed, with a reason that a person understands; the worker lives on, and nothing is left
behind: no process, no memory, no file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.operations import NewDocument
from soliplex.ingester.lib.parsing import ParseOptions
from soliplex.ingester.lib.parsing.errors import HarmfulDocumentError
from soliplex.ingester.lib.parsing.parsed_files import ParsedFiles
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.lib.workflow import parsing
from soliplex.ingester.lib.workflow.document_processes import read_in_process
from tests.support import hostile
from tests.support.engine import rows_of
from tests.support.faults import eventually, is_running, resident_mib
from tests.support.files import docx, pdf, zipped
from tests.support.harmful_parsers import METHOD
from tests.support.pipelines import SOURCE, Outcome, outcomes, registry_with, start, steps_of
from tests.support.soffice import FakeOffice

PARAMS = """
  parse: {parser: local, pages_per_part: 2}
  chunk: {chunk_size: 64}
  embed: {provider: wordllama}
  store: {data_dir: library}
"""
GOOD = b"# Bread\n\nSourdough needs rye flour, water and five days of patience.\n"

REFUSED = {
    "empty.pdf": (b"", "the document is empty"),
    "zeros.bin": (bytes(5000), "of no known kind"),
    "cut.pdf": (pdf("text")[:300], "the PDF is cut off"),
    "cut.docx": (docx("x" * 1000)[:900], "the file is cut off"),
    "cut.png": (hostile.png(64, 64, cut=True), "the picture is truncated"),
    "no-pages.pdf": (hostile.looping_pdf(), "no page that can be read"),
    "locked.pdf": (hostile.aes_pdf(), "protected by a password"),
    "locked.docx": (hostile.locked_office(), "protected by a password"),
    "locked.zip": (hostile.locked_zip(), "protected by a password"),
    "zeros.zip": (hostile.zip_of_zeros(40), "an archive bomb: it would unpack to more than 200 times"),
    "nested.zip": (hostile.nested_zip(6), "archives within archives"),
    "crowded.zip": (hostile.crowded_zip(20_001), "more than 20,000 files"),
    "laughs.docx": (hostile.laughing_docx(), "refused as an XML bomb"),
    "laughs.xlsx": (hostile.laughing_xlsx(), "refused as an XML bomb"),
    "laughs.svg": (hostile.laughing_xml("svg"), "refused as an XML bomb"),
    "laughs.nxml": (hostile.laughing_xml("article"), "refused as an XML bomb"),
    "vast.png": (hostile.png(60_000, 60_000), "more than 200 million pixels"),
}
"""By the validate step."""

UNREADABLE = {
    "archive.zip": (zipped({"a.txt": "text"}), "does not read application/zip"),
    "large.txt": (b"more than one mebibyte\n" * 50_000, "1.1 MiB, and TEXT_SIZE_LIMIT allows 1.0 MiB"),
    "crash.png": (hostile.png() + b"CRASH EVERYWHERE", r"crashed the program that read it \(SIGABRT\)"),
    "fill.png": (hostile.png() + b"FILL", "more memory than the 600 MiB of STEP_MEMORY_LIMIT_MIB"),
}
"""By the parse step."""

READ = {
    "good.md": (GOOD, "chunks"),
    "pdf.txt": (pdf("A PDF in the name of a text."), "chunks"),
    "text.pdf": (b"A text in the name of a PDF.\n", "chunks"),
    "laughs.html": (b"<!DOCTYPE html [<!ENTITY a 'ha'>]><html><body>&a;&a;</body></html>", "chunks"),
    "wide.csv": (hostile.wide_csv(5000), "chunks"),
    "deep.html": (hostile.deep_html(5000), "chunks"),
    "utf-32.txt": ("Grüße aus Linz\n".encode("utf-32"), "chunks"),
    "utf-16.txt": ("Hello without a mark\n".encode("utf-16-le") * 5, "chunks"),
    "a\nname\u202e of two lines.txt": (b"What is in a name?\n", "chunks"),
}

HARMFUL = {
    "stall.pdf": (pdf("STALL the first reader"), "the document stalled its parser; its text is without structure"),
    "pages.pdf": (
        pdf(*(f"Page {n}, CRASH ON PAGE 3" for n in range(1, 6))),
        "the document crashed its parser; its text",
    ),
}
"""What the parse step says of those that were read in another way."""


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones, and a parser that is harmed by what says so; what stalls it gets half a second."""
    monkeypatch.setenv("STEP_MEMORY_LIMIT_MIB", "600")
    monkeypatch.setenv("TEXT_SIZE_LIMIT", "1MiB")
    monkeypatch.setattr(parsing, "_PARSE", METHOD)
    monkeypatch.setattr(parsing, "read_in_process", _read_impatiently)


async def _read_impatiently(
    processes: ProcessPool, function: str, arguments: Mapping[str, Any], *, seconds: float | None
) -> object:
    # Not for the others: the first in a process waits for its imports.
    stalls = arguments.get("parser") == "local" and b"STALL" in arguments["path"].read_bytes()
    return await read_in_process(processes, function, arguments, seconds=0.5 if stalls else seconds)


@asynccontextmanager
async def working(folder: Path, params: str) -> AsyncGenerator[Worker]:
    use_registry(registry_with(folder, params))
    worker = Worker()
    await worker.start()
    yield worker
    await worker.stop()
    use_registry(None)


@pytest.fixture
async def worker(limits: None, database: type[Database], tmp_path: Path) -> AsyncIterator[Worker]:
    async with working(tmp_path / "params", PARAMS) as worker:
        yield worker


@pytest.fixture
async def default_worker(database: type[Database], tmp_path: Path) -> AsyncIterator[Worker]:
    """One of default limits, whose parser leaves layout alone: that takes a second for three pages."""
    async with working(
        tmp_path / "params", PARAMS.replace("{parser: local, pages_per_part: 2}", "{parser: fast}")
    ) as it:
        yield it


def children_of(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield from map(int, (task / "children").read_text().split())


def assert_clear(name: str, found: Outcome, words: str) -> None:
    assert re.search(words, found.words), (name, found)
    assert "\n" not in found.words, (name, found)
    assert "Traceback" not in found.words, (name, found)


async def parsed(batch_id: int) -> dict[str, dict[str, Any]]:
    """What the parse steps told of their documents."""
    rows = [row for row in await steps_of(batch_id) if row[2] == "parse" and row[5]]
    return {row[0][1:]: json.loads(row[5]) for row in rows}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_whatever_a_document_is_its_run_ends_with_a_reason(worker: Worker) -> None:
    before = set(children_of(os.getpid()))
    everything = REFUSED | UNREADABLE | READ | HARMFUL
    batch_id = await start({name: content for name, (content, _) in everything.items()}, "batch_split")
    ended = await outcomes(batch_id)

    assert set(ended) == set(everything)
    for step, some in {"validate": REFUSED, "parse": UNREADABLE}.items():
        for name, (_, words) in some.items():
            assert (ended[name].status, ended[name].step) == ("FAILED", step), (name, ended[name])
            assert_clear(name, ended[name], words)
    for name in READ | HARMFUL:
        assert (ended[name].status, ended[name].step) == ("COMPLETED", "store"), (name, ended[name])
    said = await parsed(batch_id)
    for name, (_, words) in HARMFUL.items():
        assert any(words in warning for warning in said[name]["warnings"]), (name, said[name])

    again = await outcomes(await start({"late.md": GOOD + b"It is still there.\n"}, "batch_split"))
    assert again["late.md"].status == "COMPLETED"
    # Two processes wait for the next document; what those before them started is gone with them.
    assert sum(is_running(pid) for pid in set(children_of(os.getpid())) - before) <= 2
    assert list(get_artifacts().spool.folder.iterdir()) == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_parse_that_takes_all_the_time_of_its_step_has_two_attempts_and_not_twenty(
    database: type[Database], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEP_TIMEOUT_SECONDS", "2")
    get_settings.cache_clear()
    monkeypatch.setattr(parsing, "_PARSE", METHOD)
    async with working(tmp_path / "params", PARAMS):
        # A text, so that the steps before need no process, and take no time worth mentioning.
        batch_id = await start({"stall.md": b"STALL EVERYWHERE\n"}, "batch")
        ended = await outcomes(batch_id)
    assert (ended["stall.md"].status, ended["stall.md"].step) == ("FAILED", "parse")
    assert_clear("stall.md", ended["stall.md"], "not read within the time of its step, 2 seconds; raise STEP_TIMEOUT")
    ((attempts,),) = await rows_of("SELECT retry FROM runstep WHERE workflow_step_name = 'parse'")
    assert attempts == 2
    assert list(get_artifacts().spool.folder.iterdir()) == []


async def test_a_libreoffice_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    office = FakeOffice(tmp_path / "office", monkeypatch)
    office.stalls()
    files = ParsedFiles(tmp_path / "document.json", tmp_path / "document.md")
    arguments = {"parser": "local", "path": tmp_path / "old", "mime_type": "application/msword", "into": files}
    (tmp_path / "old").touch()
    async with ProcessPool(processes=1, grace=0.2) as pool:
        with pytest.raises(HarmfulDocumentError, match="longer than 2 seconds"):
            await read_in_process(pool, parsing._PARSE, {**arguments, "options": ParseOptions()}, seconds=2)
    assert len(office.pids) == 2
    assert not any(map(is_running, office.pids))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_five_thousand_pages_and_two_gigabytes_end_and_give_their_memory_back(default_worker: Worker) -> None:
    await outcomes(await start({"warm.pdf": pdf("All that is imported, is.")}, "batch_split"))
    before = resident_mib()
    batch_id = await start({"long.pdf": hostile.long_pdf(5000)}, "batch_split")
    ended = await outcomes(batch_id, within=600)
    assert ended["long.pdf"].status == "COMPLETED", ended
    assert (await parsed(batch_id))["long.pdf"]["pages"] == 5000

    batch_id = await documents.create_batch(SOURCE, "batch")
    new = NewDocument(uri="/two-gibibytes.log", source=SOURCE, batch_id=batch_id)
    await documents.upload_document(hostile.long_text(2 << 30), new)
    await documents.start_workflows(batch_id, workflow_id="batch_split", param_id="quick")
    ended = await outcomes(batch_id, within=600)
    assert ended["two-gibibytes.log"].step == "parse"
    assert_clear("two-gibibytes.log", ended["two-gibibytes.log"], r"2,048\.. MiB, and TEXT_SIZE_LIMIT allows 64\.0 MiB")
    # LanceDB keeps some of what passed through it.
    await eventually(lambda: resident_mib() - before < 450, "the memory is back", within=120)
