"""What every parser gives, and the one way to call one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from soliplex.ingester.lib.parsing.coverage import Coverage
from soliplex.ingester.lib.parsing.options import ParseOptions


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document as text and as structure."""

    markdown: str
    document: dict[str, Any]
    """A DoclingDocument as JSON: headings, tables, and from which page each piece is."""
    pages: int | None = None
    """How many pages were parsed; None for kinds of documents that have none."""
    title: str | None = None
    warnings: tuple[str, ...] = field(default=())
    """What of the document was left out, or could only be read in part."""
    coverage: Coverage | None = None
    """How much of the text layer of a PDF is in the result; None where there is no text layer to compare with."""


class Parser(Protocol):
    """Reads documents of many kinds. Raises the errors of `parsing.errors`."""

    name: str

    async def parse(self, path: Path, *, mime_type: str, options: ParseOptions) -> Parsed: ...


@runtime_checkable
class BlockingParser(Protocol):
    """A parser that works in this process: `parse` calls it in a thread, and a process of its own directly."""

    def parse_blocking(self, path: Path, *, mime_type: str, options: ParseOptions) -> Parsed: ...
