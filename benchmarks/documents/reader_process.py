"""One reader of PDF, file by file; runs in the environment of its own.

    python -m benchmarks.documents.reader_process READER

Standard input holds the paths as JSON. The first file is read once before the clock runs: what is loaded at first use
is no part of a rate.
"""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# Each reader is installed in an environment of its own.

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

type Read = Callable[[str], str]


def _ours() -> Read:
    from soliplex.ingester.lib.parsing.local.local_parser import LocalParser
    from soliplex.ingester.lib.parsing.options import ParseOptions

    parser, options = LocalParser(), ParseOptions()
    return lambda path: parser.parse_blocking(Path(path), mime_type="application/pdf", options=options).markdown


def _docling() -> Read:
    from docling.document_converter import DocumentConverter

    converter = DocumentConverter()
    return lambda path: converter.convert(path).document.export_to_markdown()


def _pymupdf4llm() -> Read:
    import pymupdf4llm

    return lambda path: str(pymupdf4llm.to_markdown(path))


def _markitdown() -> Read:
    from markitdown import MarkItDown

    converter = MarkItDown()
    return lambda path: converter.convert(path).markdown


READERS: Final[dict[str, Callable[[], Read]]] = {
    "ours": _ours,
    "docling": _docling,
    "pymupdf4llm": _pymupdf4llm,
    "markitdown": _markitdown,
}


def _read_all(read: Read, paths: list[str]) -> dict[str, Any]:
    read(paths[0])
    found: dict[str, str] = {}
    failed: dict[str, str] = {}
    began, used = time.perf_counter(), time.process_time()
    for path in paths:
        try:
            found[path] = read(path)
        except Exception as exc:  # noqa: BLE001  it counts as read with nothing in it, and is told
            failed[path] = f"{type(exc).__name__}: {exc}"
    spent = {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time() - used}
    return {"markdown": found, "unread": failed, **spent}


def main() -> None:
    logging.disable(logging.WARNING)
    paths = json.loads(sys.stdin.readline())
    with redirect_stdout(sys.stderr):  # some readers talk
        answer = _read_all(READERS[sys.argv[1]](), paths)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
