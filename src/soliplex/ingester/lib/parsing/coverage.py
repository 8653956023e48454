"""How much of a PDF's text layer is in what a parser made of it, and what to do about the rest.

The layout model looks at a picture of the page. It takes a small table for a picture and the first paragraph for the
header of the page, and what is in either is left out of Markdown and of chunks. docling's reader of PDF gives U+FFFD
where a font's table of letters is odd, and runs numbers along an axis together to one. PDFium reads the same page in
milliseconds. So the two are compared, page by page, as bags of words:

    what was read with U+FFFD       is read again by PDFium, item by item, from the same place on the page
    words that were run together    get the spaces that PDFium saw; Arabic words in pieces are put together
    text inside a picture           goes below the picture, as text
    headers and footers             are text; one that repeats stands there once
    lines that are nowhere          are taken from PDFium, and put after what stands above them on the page

Decisions:

- The truth is the text layer within the page's bounds. What lies outside cannot be seen, and is not looked for; a layer
  that cannot be seen but lies on the page, as that of a scan that was read, counts. PDFium gives letters that were
  printed twice at one place once.
- A word counts as often as it stands on the page. It is found if it is in the body of the document: that is what the
  Markdown and the chunks are made of. Text below a picture is not, nor is a header.
- A header or footer repeats if it says the same on another page, but for numbers that go up with the pages, and so do
  two that are nothing but a number. The first stays. The words of the others are neither found nor missing: `repeated`.
- A page is rubbish if more than half of its characters have no meaning (`words.is_rubbish`). It is not compared:
  what the parser made of it is the better guess, and the page is named. So is one with text that neither reader can
  make letters of; such text is left out.
- A line that is missing whole, or most of it, is put back; so is a run of three missing words. A single word that is
  missing among others is a matter of how letters are spaced, and counts as missing.
- Nothing is compared where every page was to be read as a picture (`force_ocr`): then the layer is not trusted.
- The work is bounded: one page at a time, and of a page of more than `MOST_WORDS` only how much is missing is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from soliplex.ingester.lib.parsing.words import is_rubbish, joined_lines

if TYPE_CHECKING:
    from soliplex.ingester.lib.parsing.plain_documents import PageText

MOST_WORDS: Final = 20_000
"""Most words of a page that is repaired. A page of a newspaper has five thousand."""
MOST_PAGES_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class Coverage:
    """Words of a text layer, and how many of them came through."""

    words: int = 0
    missing: int = 0
    repeated: int = 0
    """Words of headers and footers that stand on an earlier page, and were left out."""
    restored: int = 0
    """Words that the parser had left out, and that were put back."""
    short_pages: tuple[int, ...] = field(default=())
    """Pages of which words are missing, those with most of them first."""
    rubbish_pages: tuple[int, ...] = field(default=())
    """Pages whose text layer, or some of it, says nothing."""

    @property
    def share(self) -> float:
        return 1.0 - self.missing / self.words if self.words else 1.0

    def as_json(self) -> dict[str, Any]:
        """What the step tells: the share, and beside it what it was made of."""
        told: dict[str, Any] = {"coverage": round(self.share, 4), "words": self.words, "missing_words": self.missing}
        more = {"repeated_words": self.repeated, "restored_words": self.restored}
        pages = {"short_pages": list(self.short_pages), "rubbish_pages": list(self.rubbish_pages)}
        return told | {name: value for name, value in (more | pages).items() if value}

    def warning(self, bound: float) -> str | None:
        """What is missing, in words; None where the share reaches the bound."""
        if self.share >= bound:
            return None
        pages = ", ".join(map(str, self.short_pages))
        return f"{self.missing:,} of the {self.words:,} words that its pages hold are missing; see pages {pages}"


def merged_coverage(parts: Iterable[Coverage | None]) -> Coverage | None:
    """The coverage of a document whose parts were read one by one. A part without a text layer has none."""
    found = [part for part in parts if part is not None]
    if not found:
        return None
    return Coverage(
        words=sum(part.words for part in found),
        missing=sum(part.missing for part in found),
        repeated=sum(part.repeated for part in found),
        restored=sum(part.restored for part in found),
        short_pages=tuple(page for part in found for page in part.short_pages)[:MOST_PAGES_NAMED],
        rubbish_pages=tuple(page for part in found for page in part.rubbish_pages)[:MOST_PAGES_NAMED],
    )


@dataclass(frozen=True, slots=True)
class Layer:
    """The text layer of the pages that have one, and the pages whose layer is rubbish."""

    texts: Mapping[int, str]
    rubbish: Sequence[int]


def layer_of(read: Iterable[PageText]) -> Layer:
    """The text layer, made of what PDFium read on each page."""
    pages = {page.number: page.text for page in read if page.text.strip()}
    rubbish = [number for number, text in pages.items() if is_rubbish(text)]
    readable = {number: joined_lines(text) for number, text in pages.items() if number not in set(rubbish)}
    return Layer(readable, rubbish)
