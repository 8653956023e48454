"""Readers of PDF side by side: the same files, one after the other, in a process of each reader's own.

docling's own pipeline needs torch and models from the net. Where these cannot be had, the reason stands in its place,
and nothing is installed for it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pypdfium2 import PdfDocument

from benchmarks import peers
from benchmarks.documents import reading
from benchmarks.documents.office.sources import LOOKS, Source
from benchmarks.report import Result

PATIENCE: Final = 540.0
MODELS: Final = "huggingface.co"
MODELS_FOLDER: Final = "DOCLING_ARTIFACTS_PATH"
"""Where docling looks for models that were brought along."""
PEERS: Final = {
    "docling": peers.Entry(
        label="docling (torch)", version="2.142.0", requirements=("docling==2.142.0",), databases=(), tasks=0
    ),
    "pymupdf4llm": peers.Entry(
        label="pymupdf4llm", version="1.28.2", requirements=("pymupdf4llm==1.28.2",), databases=(), tasks=0
    ),
    "markitdown": peers.Entry(
        label="markitdown", version="0.1.8", requirements=("markitdown[pdf]==0.1.8",), databases=(), tasks=0
    ),
}


@dataclass(frozen=True, slots=True)
class Pdfs:
    """Files whose content is known: those with reviewed Markdown beside them, and office exports with their source."""

    reviewed: Sequence[Path]
    exports: Mapping[Path, Source]

    @property
    def paths(self) -> list[Path]:
        return [*self.reviewed, *self.exports]


async def measure(pdfs: Pdfs) -> Result:
    """Ours alone."""
    return _rates(pdfs, await _read(Path(sys.executable), "ours", pdfs))


async def compare(name: str, pdfs: Pdfs) -> Result:
    """A peer: its rates, and all the scores that ours has."""
    if name == "docling":
        await asyncio.to_thread(_require_models)
    answer = await _read(await peers.environment(name, PEERS[name]), name, pdfs)
    read = {path: answer["markdown"].get(str(path), "") for path in pdfs.paths}
    return _rates(pdfs, answer) | words_and_headings(pdfs, read) | structure(pdfs, read)


def words_and_headings(pdfs: Pdfs, read: Mapping[Path, str]) -> Result:
    """Words and headings of the PDFs with reviewed Markdown."""
    return reading.scores([read[path] for path in pdfs.reviewed], _truths(pdfs))


def structure(pdfs: Pdfs, read: Mapping[Path, str]) -> Result:
    """Cells and headings, by how the tables of exports look, and by whether anything was tuned on them."""
    groups: dict[str, list[Path]] = {
        "all": list(pdfs.exports),
        "tuned": [path for path, source in pdfs.exports.items() if not source.is_held],
        "held": [path for path, source in pdfs.exports.items() if source.is_held],
        **{look: [path for path, source in pdfs.exports.items() if source.look == look] for look in LOOKS},
    }
    scores = {
        name: reading.structure([read[path] for path in paths], [pdfs.exports[path].markdown for path in paths])
        for name, paths in groups.items()
    }
    scores["pdf_truth"] = reading.structure([read[path] for path in pdfs.reviewed], _truths(pdfs))
    return {
        "cells_f1": {name: score["cells_f1"] for name, score in scores.items()},
        "export_headings_f1": {name: score["headings_f1"] for name, score in scores.items()},
    }


def _truths(pdfs: Pdfs) -> list[str]:
    return [path.with_suffix(".md").read_text("utf-8") for path in pdfs.reviewed]


def _rates(pdfs: Pdfs, answer: Mapping[str, Any]) -> Result:
    pages = sum(map(_pages, pdfs.paths))
    return {
        "pages_per_second": pages / answer["seconds"],
        "processor_ms_per_page": answer["processor_seconds"] / pages * 1000,
        "read_pages": pages,
        "unread": {Path(path).name: reason for path, reason in answer["unread"].items()},
    }


def _pages(path: Path) -> int:
    with closing(PdfDocument(path)) as document:
        return len(document)


def _require_models() -> None:
    if os.environ.get(MODELS_FOLDER):
        return
    try:
        socket.create_connection((MODELS, 443), timeout=5).close()
    except OSError as exc:
        message = f"its models cannot be had from {MODELS} ({exc}); a folder that has them is named by {MODELS_FOLDER}"
        raise RuntimeError(message) from exc


async def _read(python: Path, name: str, pdfs: Pdfs) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(str(python), "-m", "benchmarks.documents.reader_process", name),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=peers.ROOT,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            output, errors = await process.communicate(json.dumps([*map(str, pdfs.paths)]).encode() + b"\n")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError(f"{name} ended with {process.returncode}: {errors.decode()[-300:]}")
    return json.loads(output.splitlines()[-1])
