"""Processes that read documents, killed while they do: their temporary files go with them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from soliplex.ingester.lib import scratch
from soliplex.ingester.lib.parsing import ParseOptions
from soliplex.ingester.lib.parsing.errors import HarmfulDocumentError
from soliplex.ingester.lib.parsing.parsed_files import ParsedFiles
from soliplex.ingester.lib.wf.errors import HandlerCrashed
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.workflow import parsing
from soliplex.ingester.lib.workflow.document_processes import read_in_process
from tests.support.faults import eventually
from tests.support.soffice import FakeOffice

BEGIN = """
import os, sys, tempfile
from soliplex.ingester.lib import scratch
scratch.call("tempfile.mkdtemp", {"prefix": "parse-"})
print("begun", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that nobody else uses."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    scratch._common.cache_clear()
    yield folder
    scratch._common.cache_clear()


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path != folder / f"soliplex-{os.getuid()}")


def made_by_office(folder: Path) -> list[str]:
    return [name for name in files_in(folder) if name.startswith("office-")]


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeOffice:
    office = FakeOffice(tmp_path / "office", monkeypatch)
    office.stalls()
    return office


def reading(pool: ProcessPool, folder: Path) -> asyncio.Task[object]:
    """A call under way that LibreOffice never ends."""
    (folder / "old").touch()
    arguments = {
        "parser": "local",
        "path": folder / "old",
        "mime_type": "application/msword",
        "options": ParseOptions(),
        "into": ParsedFiles(folder / "document.json", folder / "document.md"),
    }
    return asyncio.create_task(read_in_process(pool, parsing._PARSE, arguments, seconds=None))


async def test_a_killed_parser_leaves_no_folder(office: FakeOffice, temporary: Path, tmp_path: Path) -> None:
    async with ProcessPool(processes=1, grace=0.2) as pool:
        call = reading(pool, tmp_path)
        await eventually(lambda: len(office.pids) == 2, "LibreOffice has begun", within=300)
        assert made_by_office(temporary)
        (process,) = pool._all
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises((HandlerCrashed, HarmfulDocumentError)):
            await call
        assert files_in(temporary) == []


async def test_a_parser_that_is_cancelled_leaves_no_folder(office: FakeOffice, temporary: Path, tmp_path: Path) -> None:
    async with ProcessPool(processes=1, cancel_grace=0.05) as pool:
        call = reading(pool, tmp_path)
        await eventually(lambda: len(office.pids) == 2, "LibreOffice has begun", within=300)
        assert made_by_office(temporary)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        assert files_in(temporary) == []


def begun() -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", BEGIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def test_what_a_whole_killed_worker_left_the_next_process_removes_and_nothing_else(temporary: Path) -> None:
    dead, alive = begun(), begun()
    try:
        dead.kill()
        dead.communicate()
        assert len([name for name in files_in(temporary) if name.startswith("parse-")]) == 2
        new = begun()
        new.communicate()
        assert len([name for name in files_in(temporary) if name.startswith("parse-")]) == 1
    finally:
        alive.communicate()
    assert [name for name in files_in(temporary) if not name.endswith(".lock")] == []
    assert scratch.sweep() > 0
    assert files_in(temporary) == []
