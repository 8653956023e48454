"""What an ingestion would come to: files, pages, chunks and time, by kind of document.

Time and chunks come from what was recorded of documents of the same kind. Where nothing was recorded, they are guessed
from `GUESSES`, and shown as a guess. Pages of PDFs are counted; those of other kinds follow from their size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isinf
from typing import Any, Final, NamedTuple

PDF: Final = "application/pdf"
CHUNKS_PER_PAGE: Final = 3.0
BYTES_PER_PAGE_OF_TEXT: Final = 2_500
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."


class Guess(NamedTuple):
    """What is assumed of a kind of document that was never processed here."""

    bytes_per_page: float
    """Bytes of a page. Infinite: each document has one page."""
    seconds_per_page: float
    """Seconds to parse a page with the local parser."""


SECONDS_PER_DOCUMENT: Final = 0.05
SECONDS_PER_CHUNK: Final = 0.03
START_UP: Final = 12.0
"""Seconds in which the parser and the embedding model are loaded, once."""
GUESSES: Final[Mapping[str, Guess]] = {
    PDF: Guess(60_000, 0.2),
    "image/": Guess(inf, 2.0),
    "text/html": Guess(8_000, 0.02),
    "text/": Guess(BYTES_PER_PAGE_OF_TEXT, 0.01),
    f"{_OFFICE}wordprocessingml": Guess(25_000, 0.05),
    f"{_OFFICE}presentationml": Guess(40_000, 0.05),
    f"{_OFFICE}spreadsheetml": Guess(15_000, 0.05),
    "": Guess(15_000, 0.05),
}
"""What is guessed of a kind of documents, by how its MIME type begins: the first that fits counts."""
NAMES: Final[Mapping[str, str]] = {
    PDF: "PDF",
    "text/markdown": "Markdown",
    "text/html": "HTML",
    "text/plain": "text",
    "text/csv": "CSV",
    "text/asciidoc": "AsciiDoc",
    "application/json": "JSON",
    "application/xml": "XML",
    "message/rfc822": "mail",
    "text/vtt": "WebVTT",
    "application/x-tex": "LaTeX",
    "application/epub+zip": "EPUB",
    "application/msword": "Word 97",
    "application/vnd.ms-excel": "Excel 97",
    "application/vnd.ms-powerpoint": "PowerPoint 97",
    "application/vnd.ms-outlook": "Outlook message",
    f"{_OFFICE}wordprocessingml.document": "Word",
    f"{_OFFICE}presentationml.presentation": "PowerPoint",
    f"{_OFFICE}spreadsheetml.sheet": "Excel",
    "application/vnd.oasis.opendocument.text": "OpenDocument text",
    "application/vnd.oasis.opendocument.spreadsheet": "OpenDocument sheet",
    "application/vnd.oasis.opendocument.presentation": "OpenDocument slides",
}


@dataclass(frozen=True, slots=True)
class ForecastFile:
    """A file that would be processed."""

    mime_type: str
    size: int
    pages: int | None = None
    """The number of pages; None where they were not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindForecast:
    """What documents of one kind would come to."""

    mime_type: str
    files: int
    bytes: int
    pages: int
    pages_are_counted: bool
    chunks: int
    seconds: float
    recorded_documents: int
    """How many documents of this kind the figures come from; 0: they are a guess."""

    @property
    def name(self) -> str:
        kind, _, name = self.mime_type.partition("/")
        return NAMES.get(self.mime_type, f"{name.upper()} image" if kind == "image" else self.mime_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What all of it would come to."""

    kinds: list[KindForecast] = field(default_factory=list[KindForecast])
    start_up: float = 0.0

    @property
    def files(self) -> int:
        return sum(kind.files for kind in self.kinds)

    @property
    def bytes(self) -> int:
        return sum(kind.bytes for kind in self.kinds)

    @property
    def pages(self) -> int:
        return sum(kind.pages for kind in self.kinds)

    @property
    def pages_are_counted(self) -> bool:
        return all(kind.pages_are_counted for kind in self.kinds)

    @property
    def chunks(self) -> int:
        return sum(kind.chunks for kind in self.kinds)

    @property
    def seconds(self) -> float:
        return self.start_up + sum(kind.seconds for kind in self.kinds)

    @property
    def recorded_documents(self) -> int:
        return sum(kind.recorded_documents for kind in self.kinds)

    @property
    def guessed(self) -> list[KindForecast]:
        return [kind for kind in self.kinds if not kind.recorded_documents]

    @property
    def basis(self) -> str:
        if not self.guessed:
            return "recorded"
        return "partly guessed" if self.recorded_documents else "guessed"

    def as_json(self) -> dict[str, Any]:
        totals = ("files", "bytes", "pages", "pages_are_counted", "chunks", "seconds", "recorded_documents")
        shown = [{name: getattr(kind, name) for name in ("mime_type", *totals)} for kind in self.kinds]
        whole = {name: getattr(self, name) for name in totals}
        return _rounded({**whole, "basis": self.basis, "kinds": [_rounded(kind) for kind in shown]})


def _rounded(figures: dict[str, Any]) -> dict[str, Any]:
    return figures | {"seconds": round(figures["seconds"], 1)}


def forecast(files: Sequence[ForecastFile], rates: Mapping[str, Any], *, loads_models: bool) -> Forecast:
    """What the files would come to, by recorded rates as `/stats/processing-rates` tells them.

    `loads_models`: the parser and the model are loaded for this alone.
    """
    recorded = _recorded(rates.get("rates", ()))
    by_kind: dict[str, list[ForecastFile]] = {}
    for file in files:
        by_kind.setdefault(file.mime_type, []).append(file)
    kinds = [_kind(mime_type, some, recorded.get(mime_type)) for mime_type, some in by_kind.items()]
    kinds.sort(key=lambda kind: (-kind.seconds, kind.mime_type))
    if not loads_models or not kinds:
        return Forecast(kinds=kinds)
    is_known = any(kind.recorded_documents for kind in kinds)
    return Forecast(kinds=kinds, start_up=rates.get("start_up_seconds", 0.0) if is_known else START_UP)


class _Recorded(NamedTuple):
    documents: int
    bytes: int
    pages: int
    chunks: int
    seconds: float


def _recorded(rates: Iterable[Mapping[str, Any]]) -> dict[str, _Recorded]:
    """The rates of all steps of a kind added up: each step has seen the same documents and took its own seconds."""
    found: dict[str, _Recorded] = {}
    for rate in rates:
        mime_type, before = rate["mime_type"], found.get(rate["mime_type"], _Recorded(0, 0, 0, 0, 0.0))
        most = {name: max(getattr(before, name), rate[name]) for name in ("documents", "bytes", "pages", "chunks")}
        found[mime_type] = _Recorded(**most, seconds=before.seconds + rate["seconds"])
    return found


def _kind(mime_type: str, files: Sequence[ForecastFile], recorded: _Recorded | None) -> KindForecast:
    size, counted = sum(file.size for file in files), all(file.pages is not None for file in files)
    guess = next(guess for beginning, guess in GUESSES.items() if mime_type.startswith(beginning))
    pages = round(sum(_pages(file, guess, recorded) for file in files))
    if recorded is None:
        chunks = round(pages * CHUNKS_PER_PAGE)
        seconds = len(files) * SECONDS_PER_DOCUMENT + pages * guess.seconds_per_page + chunks * SECONDS_PER_CHUNK
    else:
        share = pages / recorded.pages if counted and recorded.pages else size / max(recorded.bytes, 1)
        chunks, seconds = round(recorded.chunks * share), recorded.seconds * share
    return KindForecast(
        mime_type=mime_type,
        files=len(files),
        bytes=size,
        pages=pages,
        pages_are_counted=counted,
        chunks=chunks,
        seconds=seconds,
        recorded_documents=recorded.documents if recorded else 0,
    )


def _pages(file: ForecastFile, guess: Guess, recorded: _Recorded | None) -> float:
    if file.pages is not None:
        return file.pages
    if isinf(guess.bytes_per_page):
        return 1.0
    per_page = recorded.bytes / recorded.pages if recorded and recorded.pages else guess.bytes_per_page
    return max(1.0, file.size / per_page)
