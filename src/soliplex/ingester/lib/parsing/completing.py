"""Put into a parsed PDF what is in its text layer and not in its body; `coverage` says what is done and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from soliplex.ingester.lib import pdfium
from soliplex.ingester.lib.parsing.coverage import MOST_PAGES_NAMED, MOST_WORDS, Coverage, Layer, layer_of
from soliplex.ingester.lib.parsing.page_lines import Box, Line, lines_of
from soliplex.ingester.lib.parsing.words import (
    CURSIVE_WORD,
    Comparison,
    Word,
    compare,
    is_rubbish,
    joined_lines,
    words_of,
)

if TYPE_CHECKING:
    from docling_core.types.doc.base import BoundingBox
    from docling_core.types.doc.document import DoclingDocument
    from docling_core.types.doc.items.node import NodeItem
    from docling_core.types.doc.items.picture.picture import PictureItem
    from docling_core.types.doc.items.table.table_data import TableCell
    from docling_core.types.doc.items.text import TextItem

UNREAD: Final = "\ufffd"
MOST_OF_LINE: Final = 0.6
"""A line is missing as a whole if this share of its words is missing; else single words of it are."""
RUN: Final = 3
NEXT_LINE: Final = 1.2
"""A line whose distance to the one before is less than this share of its height belongs to the same paragraph."""
_NUMBER: Final = re.compile(r"\d{1,18}")
_ROMAN: Final = re.compile("(?=.)c{0,3}(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
_ROMAN_DIGITS: Final = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


class Piece(NamedTuple):
    """A text of the body that stands on one page, with the way to change it."""

    page: int
    text: str
    box: Box | None
    put: Callable[[str], None] | None
    """Replaces the text. None where the text goes on on another page: which part of it stands on this page is not
    known."""


@dataclass(slots=True)
class _Page:
    number: int
    text: str
    words: list[Word]
    missing: list[int] = field(default_factory=list[int])
    is_badly_spaced: bool = False

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.words[place].key for place in self.missing)


def complete(document: DoclingDocument, path: Path, layer: Layer) -> Coverage:
    """Change the document so that it holds what its pages say; gives how much of that it holds now."""
    _show_formulas(document)
    job = _Completing(document, layer)
    before = job.compare()
    if job.pages_short or job.unread_pages or any(page.is_badly_spaced for page in job.pages):
        with pdfium.opened(path) as pdf:
            job.repair(lambda number: lines_of(pdf[number - 1]))
        after = job.compare()
    else:
        job.show_hidden()  # of pages that were read by OCR, no text layer tells what is missing
        after = before
    return Coverage(
        words=sum(len(page.words) for page in job.pages) - job.repeated,
        missing=after,
        repeated=job.repeated,
        restored=max(0, before - after - job.repeated),
        short_pages=tuple(page.number for page in job.worst_pages())[:MOST_PAGES_NAMED],
        rubbish_pages=tuple(sorted({*layer.rubbish, *job.unreadable}))[:MOST_PAGES_NAMED],
    )


def _show_formulas(document: DoclingDocument) -> None:
    """Put the letters of formulas into the text: no parser here makes TeX of them."""
    from docling_core.types.doc.labels import DocItemLabel  # noqa: PLC0415  loaded with any document

    for item in document.texts:
        if item.label is DocItemLabel.FORMULA and not item.text:
            item.text = item.orig


def show_hidden(document: DoclingDocument) -> None:
    """As `complete` does, for a document without a text layer that could tell what is missing."""
    _Completing(document, layer_of(())).show_hidden()


def measure(document: DoclingDocument, layer: Layer) -> Coverage:
    """How much of the pages' text the document holds, as it is."""
    job = _Completing(document, layer)
    missing = job.compare()
    return Coverage(
        words=sum(len(page.words) for page in job.pages),
        missing=missing,
        short_pages=tuple(page.number for page in job.worst_pages())[:MOST_PAGES_NAMED],
        rubbish_pages=tuple(layer.rubbish)[:MOST_PAGES_NAMED],
    )


class _Completing:
    def __init__(self, document: DoclingDocument, layer: Layer) -> None:
        self.document = document
        self.pages = [_Page(number, text, words_of(text)) for number, text in sorted(layer.texts.items())]
        self._left_out = dict[int, Counter[str]]()
        """Words of headers and footers that repeat, by page."""
        self.unreadable = set[int]()
        """Pages with text that neither reader knows the letters of."""

    @property
    def repeated(self) -> int:
        return sum(words.total() for words in self._left_out.values())

    @property
    def pages_short(self) -> list[_Page]:
        return [page for page in self.pages if page.missing]

    @property
    def unread_pages(self) -> set[int]:
        return {piece.page for piece in pieces_of(self.document) if UNREAD in piece.text}

    def worst_pages(self) -> list[_Page]:
        return sorted(self.pages_short, key=lambda page: -len(page.missing))

    def compare(self) -> int:
        """Find out which words are missing on which page; gives how many."""
        pieces = _by_page(pieces_of(self.document))
        for page in self.pages:
            self._compare_page(page, pieces.get(page.number, ()))
        return sum(len(page.missing) for page in self.pages)

    def _compare_page(self, page: _Page, pieces: Sequence[Piece]) -> None:
        result = [word for piece in pieces for word in words_of(piece.text)]
        found = compare(page.words, result)
        page.is_badly_spaced = bool(found.run_together or _torn(found))
        left_out = self._left_out.get(page.number, Counter[str]()).copy()
        page.missing = []
        for place in found.missing:
            key = page.words[place].key
            if left_out[key]:
                left_out[key] -= 1
            else:
                page.missing.append(place)

    def repair(self, read_lines: Callable[[int], list[Line]]) -> None:
        """Make the repairs one after the other: each leaves less for the next. A page's lines are read at most once."""
        lines = _Lines(read_lines)
        for number in sorted(self.unread_pages):
            self._read_again(number, lines)
        self.show_hidden()
        self.compare()
        for page in self.pages:
            if page.is_badly_spaced and len(page.words) <= MOST_WORDS:
                self._space(page)
        self.compare()
        for page in self.pages_short:
            if len(page.words) <= MOST_WORDS:
                self._insert(page, lines.of(page.number))

    def _read_again(self, number: int, lines: _Lines) -> None:
        """Give texts with letters that were not read the lines that PDFium sees at their place."""
        for piece in [*pieces_of(self.document)]:
            if piece.page != number or UNREAD not in piece.text or piece.put is None or piece.box is None:
                continue
            seen = [line.text for line in lines.of(number) if piece.box.holds(line.box)]
            text = " ".join(joined_lines("\n".join(seen)).split())
            if is_rubbish(text):
                self.unreadable.add(number)
                text = ""
            piece.put(text)

    def show_hidden(self) -> None:
        """Put what Markdown would not show into the body: texts in pictures, headers and footers."""
        self._show_pictures()
        self._show_margins()

    def _show_pictures(self) -> None:
        """Put the texts that the document keeps as children of a picture into the body, after the picture."""
        for picture in [*self.document.pictures]:
            if texts := list(_texts_below(self.document, picture)):
                _insert_text(self.document, picture, texts)

    def _show_margins(self) -> None:
        """Put headers and footers into the body; of those that repeat, the first."""
        from docling_core.types.doc.common.content_layer import ContentLayer  # noqa: PLC0415  loaded with any document
        from docling_core.types.doc.items.text import TextItem  # noqa: PLC0415
        from docling_core.types.doc.labels import DocItemLabel  # noqa: PLC0415

        shown: list[tuple[int, str]] = []
        known = {page.number for page in self.pages}
        for item in self.document.texts:
            if item.content_layer is not ContentLayer.FURNITURE or not item.prov or not item.text.strip():
                continue
            number = item.prov[0].page_no
            if any(repeats(text, page, item.text, number) for page, text in shown):
                if number in known:
                    self._left_out.setdefault(number, Counter()).update(word.key for word in words_of(item.text))
                continue
            shown.append((number, item.text))
            item.content_layer = ContentLayer.BODY
            if type(item) is TextItem and item.label in {DocItemLabel.PAGE_HEADER, DocItemLabel.PAGE_FOOTER}:
                item.label = DocItemLabel.TEXT

    def _space(self, page: _Page) -> None:
        """Part words that were run together, and put together those of joined letters that were torn apart."""
        pieces = [piece for piece in pieces_of(self.document) if piece.page == page.number]
        found = compare(page.words, [word for piece in pieces for word in words_of(piece.text)])
        parted = {key: _raw(page, *places) for key, places in found.run_together.items()}
        torn = _torn(found)
        for piece in pieces:
            text = _joined(_parted(piece.text, parted), torn)
            if text != piece.text and piece.put is not None:
                piece.put(text)

    def _insert(self, page: _Page, lines: Sequence[Line]) -> None:
        boxes = [piece.box for piece in pieces_of(self.document) if piece.page == page.number and piece.box]
        missing = missing_lines(lines, page.counts, boxes)
        for paragraph in _paragraphs(missing):
            _put_in_place(self.document, page.number, paragraph)


def _torn(found: Comparison) -> set[str]:
    return {key for key in found.torn_apart if CURSIVE_WORD.fullmatch(key)}


class _Lines:
    def __init__(self, read: Callable[[int], list[Line]]) -> None:
        self._read = read
        self._number, self._lines = 0, list[Line]()

    def of(self, number: int) -> list[Line]:
        if number != self._number:
            self._number, self._lines = number, self._read(number)
        return self._lines


def _by_page(pieces: Iterable[Piece]) -> dict[int, list[Piece]]:
    found: dict[int, list[Piece]] = {}
    for piece in pieces:
        found.setdefault(piece.page, []).append(piece)
    return found


def pieces_of(document: DoclingDocument) -> Iterator[Piece]:
    """The pieces of the body, of which Markdown and chunks are made."""
    from docling_core.types.doc.common.content_layer import ContentLayer  # noqa: PLC0415  loaded with any document

    below = {ref for picture in document.pictures for ref in _refs_below(document, picture)}
    for item in document.texts:
        if item.content_layer is ContentLayer.BODY and item.self_ref not in below:
            yield from _pieces_of_text(document, item)
    for table in document.tables:
        if table.content_layer is ContentLayer.BODY and table.self_ref not in below and table.prov:
            for cell in table.data.table_cells:
                yield _piece_of_cell(document, table.prov[0].page_no, cell)


def _pieces_of_text(document: DoclingDocument, item: TextItem) -> Iterator[Piece]:
    def put(text: str) -> None:
        item.text = text
        item.orig = text
        if item.prov:
            item.prov[0].charspan = (0, len(text))

    if len(item.prov) == 1:
        place = item.prov[0]
        yield Piece(place.page_no, item.text, _box(document, place.page_no, place.bbox), put)
        return
    for place in item.prov:
        first, last = place.charspan
        yield Piece(place.page_no, item.text[first:last], _box(document, place.page_no, place.bbox), None)


def _piece_of_cell(document: DoclingDocument, page: int, cell: TableCell) -> Piece:
    def put(text: str) -> None:
        cell.text = text

    return Piece(page, cell.text, _box(document, page, cell.bbox) if cell.bbox else None, put)


def _box(document: DoclingDocument, page: int, box: BoundingBox) -> Box:
    height = document.pages[page].size.height if page in document.pages else 0.0
    found = box.to_bottom_left_origin(height)
    return Box(found.l, found.b, found.r, found.t)


def _refs_below(document: DoclingDocument, item: NodeItem) -> Iterator[str]:
    """References to the children of a picture, but for its captions, which go with it everywhere."""
    captions = {ref.cref for ref in getattr(item, "captions", ())}
    for ref in item.children:
        if ref.cref not in captions:
            yield ref.cref
            yield from _refs_below(document, ref.resolve(document))


def _texts_below(document: DoclingDocument, picture: PictureItem) -> Iterator[tuple[str, int]]:
    refs = set(_refs_below(document, picture))
    for item in document.texts:
        if item.self_ref in refs and item.text.strip() and item.prov:
            yield item.text, item.prov[0].page_no


def repeats(first: str, first_page: int, later: str, later_page: int) -> bool:
    """Whether a header says the same as one before it, but for numbers that count the pages.

    A number that goes up otherwise is not the page's: it tells one invoice or section from another.
    """
    if first_page == later_page:
        return False
    one, other = _with_roman_edges(first), _with_roman_edges(later)
    wording = _NUMBER.sub("#", one)
    if wording != _NUMBER.sub("#", other):
        return False
    if wording == "#":
        return True
    pairs = zip(map(int, _NUMBER.findall(one)), map(int, _NUMBER.findall(other)), strict=True)
    return all(b in {a, a + later_page - first_page} for a, b in pairs)


def _with_roman_edges(text: str) -> str:
    """The words of the text. One that is a Roman number, at its beginning or end, is written in digits."""
    words = [word.key for word in words_of(text)]
    for edge in {0, len(words) - 1} if words else ():
        words[edge] = str(_roman(words[edge]) or words[edge])
    return " ".join(words)


def _roman(word: str) -> int:
    """What a Roman number below 400 says; 0 for any other word."""
    if _ROMAN.fullmatch(word) is None:
        return 0
    values = [_ROMAN_DIGITS[digit] for digit in word]
    return sum(-one if one < after else one for one, after in zip(values, [*values[1:], 0], strict=True))


def _raw(page: _Page, first: int, last: int) -> str:
    return " ".join(page.text[page.words[first].start : page.words[last - 1].end].split())


def _parted(text: str, parted: dict[str, str]) -> str:
    for word in reversed(words_of(text) if parted else ()):
        if word.key in parted:
            text = text[: word.start] + parted[word.key] + text[word.end :]
    return text


def _joined(text: str, torn: set[str]) -> str:
    """The text, without spaces inside these words."""
    if not torn:
        return text
    words = words_of(text)
    for last in range(len(words) - 1, 0, -1):
        first = _beginning(words, last, torn)
        if first is not None and first < last:
            start, end = words[first].start, words[last].end
            text = text[:start] + "".join(text[start:end].split()) + text[end:]
            return _joined(text, torn)
    return text


def _beginning(words: Sequence[Word], last: int, torn: set[str]) -> int | None:
    longest = max(map(len, torn))
    letters = ""
    for first in range(last, -1, -1):
        letters = words[first].key + letters
        if len(letters) > longest:
            return None
        if first < last and _same_letters(letters, torn):
            return first
    return None


def _same_letters(letters: str, torn: set[str]) -> bool:
    return letters in torn or "".join(word.key for word in words_of(letters)) in torn


def missing_lines(lines: Sequence[Line], missing: Counter[str], read: Sequence[Box]) -> list[Line]:
    """Lines that are missing whole or nearly, and runs of missing words in others, in the order of the page.

    Where the same words stand in several lines, those go first that are at no place that was read.
    """
    left = missing.copy()
    keys = [[word.key for word in words_of(joined_lines(line.text))] for line in lines]
    outside = [not any(box.holds(line.box) for box in read) for line in lines]
    order = sorted(range(len(lines)), key=lambda number: (not outside[number], -_share(keys[number], left), number))
    found: dict[int, str] = {}
    for number in order:
        if keys[number] and _share(keys[number], left) >= MOST_OF_LINE:
            left.subtract(Counter(keys[number]) & left)
            found[number] = joined_lines(lines[number].text)
    for number in order:
        if number not in found and (run := _longest_run(lines[number].text, left)):
            found[number] = run
            left.subtract(Counter(word.key for word in words_of(run)) & left)
    return [Line(found[number], lines[number].box) for number in sorted(found)]


def _share(keys: Sequence[str], left: Counter[str]) -> float:
    return (Counter(keys) & left).total() / len(keys) if keys else 0.0


def _longest_run(text: str, left: Counter[str]) -> str:
    words = words_of(text)
    runs = [list(run) for is_left, run in groupby(words, key=lambda word: left[word.key] > 0) if is_left]
    longest = max(runs, key=len, default=[])
    return text[longest[0].start : longest[-1].end] if len(longest) >= RUN else ""


def _paragraphs(lines: Sequence[Line]) -> list[Line]:
    """Lines below each other put together."""
    found: list[Line] = []
    for line in lines:
        before = found[-1] if found else None
        height = line.box.top - line.box.bottom
        if (
            before is not None
            and before.box.is_beside(line.box)
            and -height < before.box.bottom - line.box.top < height * NEXT_LINE
        ):
            found[-1] = Line(joined_lines(f"{before.text}\n{line.text}"), before.box.around(line.box))
        else:
            found.append(line)
    return [Line(" ".join(line.text.split()), line.box) for line in found]


def _put_in_place(document: DoclingDocument, page: int, line: Line) -> None:
    """Put the text after what stands above it in its column, or before what stands below it, or by its height."""
    from docling_core.types.doc.base import BoundingBox, CoordOrigin  # noqa: PLC0415  loaded with any document
    from docling_core.types.doc.common.reference import ProvenanceItem  # noqa: PLC0415
    from docling_core.types.doc.labels import DocItemLabel  # noqa: PLC0415

    box = BoundingBox(
        l=line.box.left,
        b=line.box.bottom,
        r=line.box.right,
        t=line.box.top,
        coord_origin=CoordOrigin.BOTTOMLEFT,
    )
    place = ProvenanceItem(page_no=page, bbox=box, charspan=(0, len(line.text)))
    neighbour, is_after = neighbour_of(line.box, page, list(_top_level(document)))
    if neighbour is None:
        document.add_text(label=DocItemLabel.TEXT, text=line.text, prov=place)
    else:
        item = document.body.children[neighbour].resolve(document)
        document.insert_text(item, DocItemLabel.TEXT, line.text, prov=place, after=is_after)


class Placed(NamedTuple):
    """A child of the body, and where it stands."""

    number: int
    page: int
    box: Box


def _top_level(document: DoclingDocument) -> Iterator[Placed]:
    for number, ref in enumerate(document.body.children):
        places = list(_places(document, ref.resolve(document)))
        if places:
            page = places[-1][0]
            yield Placed(number, page, _around(box for on, box in places if on == page))


def _around(boxes: Iterable[Box]) -> Box:
    first, *others = boxes
    for box in others:
        first = first.around(box)
    return first


def _places(document: DoclingDocument, item: NodeItem) -> Iterator[tuple[int, Box]]:
    own = [(place.page_no, _box(document, place.page_no, place.bbox)) for place in getattr(item, "prov", ())]
    yield from own
    if not own:
        for ref in item.children:
            yield from _places(document, ref.resolve(document))


def neighbour_of(box: Box, page: int, items: Sequence[Placed]) -> tuple[int | None, bool]:
    """Which child of the body the text stands next to, and whether it comes after it."""
    here = [item for item in items if item.page == page]
    middle = (box.bottom + box.top) / 2
    above = [item for item in here if item.box.is_beside(box) and item.box.top > middle]
    if above:
        return min(above, key=lambda item: (item.box.bottom, -item.number)).number, True
    below = [item for item in here if item.box.is_beside(box)]
    if below:
        return below[0].number, False
    higher = [item for item in here if item.box.top > middle]
    if higher:
        return higher[-1].number, True
    if here:
        return here[0].number, False
    earlier = [item for item in items if item.page < page]
    later = [item for item in items if item.page > page]
    if earlier:
        return earlier[-1].number, True
    return (later[0].number, False) if later else (None, True)


def _insert_text(document: DoclingDocument, picture: PictureItem, texts: Sequence[tuple[str, int]]) -> None:
    from docling_core.types.doc.common.reference import ProvenanceItem  # noqa: PLC0415  loaded with any document
    from docling_core.types.doc.labels import DocItemLabel  # noqa: PLC0415

    text = "\n".join(text for text, _ in texts)
    box = picture.prov[0].bbox if picture.prov else None
    place = ProvenanceItem(page_no=texts[0][1], bbox=box, charspan=(0, len(text))) if box else None
    document.insert_text(_in_body(document, picture), DocItemLabel.TEXT, text, prov=place, after=True)


def _in_body(document: DoclingDocument, item: NodeItem) -> NodeItem:
    """The item itself, or the child of the body that it is below: a picture may stand in a cell of a table."""
    while item.parent is not None and item.parent.cref != document.body.self_ref:
        item = item.parent.resolve(document)
    return item
