"""What a parser gives, in files instead of memory.

A document of five thousand pages is gigabytes of objects. They live and end in the process that parses; what passes to
the worker is the names of two files and a few words about them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from soliplex.ingester.lib.parsing.coverage import Coverage, merged_coverage
from soliplex.ingester.lib.parsing.invisible import without_invisible
from soliplex.ingester.lib.parsing.long_documents import merged_documents
from soliplex.ingester.lib.parsing.options import ParseOptions
from soliplex.ingester.lib.parsing.plain_documents import title_of
from soliplex.ingester.lib.parsing.registry import parse_blocking
from soliplex.ingester.lib.parsing.results import Parsed


class ParsedFiles(NamedTuple):
    """The files in which a parsed document stands, or is to stand: its structure as JSON, its text as Markdown."""

    document: Path
    markdown: Path


class Contents(NamedTuple):
    """What the files would hold."""

    document: bytes
    markdown: bytes


@dataclass(frozen=True, slots=True)
class About:
    """What is told of a parsed document."""

    pages: int | None
    characters: int
    title: str | None
    warnings: tuple[str, ...] = field(default=())
    coverage: Coverage | None = None
    contents: Contents | None = None
    """The document itself, where it is short enough to be handed over; then there are no files."""


def parse_to_files(
    parser: str, path: Path, mime_type: str, options: ParseOptions, into: ParsedFiles, *, in_hand: int = 0
) -> About:
    """Parse here and now, in a process that may be killed for it: what the engine calls by its name.

    What takes no more than `in_hand` bytes is given back, and no file is written.
    """
    return write_files(parse_blocking(parser, path, mime_type, options), into, in_hand=in_hand)


def write_files(parsed: Parsed, into: ParsedFiles, *, in_hand: int = 0) -> About:
    markdown = without_invisible(parsed.markdown)
    title = None if parsed.title is None else without_invisible(parsed.title)
    contents = Contents(_encoded(parsed.document), markdown.encode("utf-8", "replace"))
    about = About(parsed.pages, len(markdown), title, parsed.warnings, parsed.coverage)
    if sum(map(len, contents)) <= in_hand:
        return replace(about, contents=contents)
    into.document.parent.mkdir(parents=True, exist_ok=True)
    into.document.write_bytes(contents.document)
    into.markdown.write_bytes(contents.markdown)
    return about


def merge_files(parts: Sequence[tuple[ParsedFiles, About]], into: ParsedFiles) -> About:
    """As `pages.merged`: one document of parts that follow each other."""
    document = merged_documents([json.loads(files.document.read_bytes()) for files, _ in parts])
    into.document.write_bytes(_encoded(document))
    _join([files.markdown for files, about in parts if about.characters], into.markdown)
    pages = [about.pages for _, about in parts if about.pages is not None]
    return About(
        pages=sum(pages) if pages else None,
        characters=sum(about.characters for _, about in parts),
        title=title_of(document),
        warnings=tuple(dict.fromkeys(warning for _, about in parts for warning in about.warnings)),
        coverage=merged_coverage(about.coverage for _, about in parts),
    )


def _join(texts: Sequence[Path], into: Path) -> None:
    with into.open("wb") as whole:
        for number, path in enumerate(texts):
            whole.write(b"\n\n" if number else b"")
            with path.open("rb") as text:
                shutil.copyfileobj(text, whole)


def _encoded(value: Any) -> bytes:
    # Half of a surrogate pair, which broken fonts give, is no character of UTF-8.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return without_invisible(text).encode("utf-8", "replace")
