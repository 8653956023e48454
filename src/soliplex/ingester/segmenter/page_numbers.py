"""Which page of the document a place in its Markdown is on.

The structure of a parsed document (docling's JSON) says from which page each piece of text is, and the Markdown holds
the same pieces in the same order. Marks of Markdown, escapes and line breaks differ: so letters and digits alone are
compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

type Item = Mapping[str, Any]

_LOOKED_FOR: Final = 60
"""How many letters and digits at the beginning of a piece are looked for."""
_AHEAD: Final = 20_000
"""How many letters and digits after the last piece that was found are searched for the next one."""


class PageMark(NamedTuple):
    """From this place of the Markdown on, the text is from this page, up to the next mark."""

    offset: int
    page: int


def page_marks(markdown: str, document: Item) -> list[PageMark]:
    """The places at which pages begin; none where the document has no pages."""
    letters, places = _letters(markdown)
    marks = list[PageMark]()
    position = 0
    for page, text in _pieces(document):
        wanted = "".join(filter(str.isalnum, text[: 4 * _LOOKED_FOR]))[:_LOOKED_FOR]
        found = letters.find(wanted, position, position + _AHEAD) if wanted else -1
        if found < 0:
            continue
        position = found + len(wanted)
        if not marks or marks[-1].page != page:
            marks.append(PageMark(places[found], page))
    return marks


def page_at(marks: Sequence[PageMark], offset: int) -> int | None:
    """The page of a place. What stands before the first mark is on the first page that is known."""
    if not marks:
        return None
    number = bisect_right(marks, offset, key=lambda mark: mark.offset)
    return marks[max(number - 1, 0)].page


def _letters(markdown: str) -> tuple[str, list[int]]:
    places = [place for place, letter in enumerate(markdown) if letter.isalnum()]
    return "".join(markdown[place] for place in places), places


def _pieces(document: Item) -> Iterator[tuple[int, str]]:
    """The texts of the body in reading order, each with its page."""
    seen = set[str]()
    waiting = [_reference(child) for child in reversed((document.get("body") or {}).get("children") or ())]
    while waiting:
        ref = waiting.pop()
        item = _item(document, ref)
        if item is None or ref in seen or item.get("content_layer", "body") != "body":
            continue
        seen.add(ref)
        waiting += [_reference(child) for child in reversed(item.get("children") or ())]
        # A caption stands above its table in the Markdown, and is an item of its own in the structure.
        waiting += [_reference(child) for child in reversed(item.get("captions") or ())]
        page = _page_of(item)
        if page is not None:
            yield from ((page, text) for text in _texts(item))


def _reference(child: Item) -> str:
    return str(child.get("$ref") or child.get("cref") or "")


def _item(document: Item, ref: str) -> Item | None:
    kind, _, number = ref.removeprefix("#/").partition("/")
    items = document.get(kind)
    if not isinstance(items, Sequence) or not number.isdecimal() or int(number) >= len(items):
        return None
    return items[int(number)]


def _page_of(item: Item) -> int | None:
    return next((place["page_no"] for place in item.get("prov") or () if place.get("page_no") is not None), None)


def _texts(item: Item) -> Iterator[str]:
    if text := str(item.get("text") or ""):
        yield text
    for cell in (item.get("data") or {}).get("table_cells") or ():
        if text := str(cell.get("text") or ""):
            yield text
