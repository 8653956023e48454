"""Long documents in parts: which pages belong to which, and the parts put together again.

    PDF of 120 pages ──page_ranges──▶ (1, 40) (41, 80) (81, 120) ──a parser, for each──▶ parts ──merged──▶ one document

Pages keep the numbers they have in the whole document, since parsers keep them. The parts are put together as JSON: to
make objects of a document of five thousand pages, and copy them, would take minutes and gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.lib import pdfium
from soliplex.ingester.lib.parsing.coverage import merged_coverage
from soliplex.ingester.lib.parsing.formats import media_type
from soliplex.ingester.lib.parsing.pdf_text import unreadable_pdf
from soliplex.ingester.lib.parsing.plain_documents import title_of
from soliplex.ingester.lib.parsing.results import Parsed

type PageRange = tuple[int, int]

_REFERENCE: Final = re.compile(r"#/([a-z_]+)/(\d+)(/.*)?")
_REFERRING: Final = frozenset({"$ref", "self_ref", "cref"})


def count_pages(path: Path, mime_type: str) -> int | None:
    """How many pages the document has, if it is of a kind that can be parsed by pages."""
    if media_type(mime_type) != "application/pdf":
        return None
    try:
        with pdfium.opened(path) as document:
            return len(document)
    except pdfium.UnreadablePDFError as exc:
        raise unreadable_pdf(exc) from exc


def page_ranges(pages: int, per_part: int) -> list[PageRange]:
    """Part the pages into as few ranges as hold them, of nearly equal length, none of which is left with one page."""
    parts = -(-pages // per_part)
    edges = [pages * number // parts for number in range(parts + 1)] if parts else []
    return [(first + 1, last) for first, last in pairwise(edges)]


def merged(parts: Sequence[Parsed]) -> Parsed:
    """One document of parts that follow each other."""
    if len(parts) == 1:
        return parts[0]
    document = merged_documents([part.document for part in parts])
    pages = [part.pages for part in parts if part.pages is not None]
    return Parsed(
        markdown="\n\n".join(part.markdown for part in parts if part.markdown.strip()),
        document=document,
        pages=sum(pages) if pages else None,
        title=title_of(document),
        warnings=tuple(dict.fromkeys(warning for part in parts for warning in part.warnings)),
        coverage=merged_coverage(part.coverage for part in parts),
    )


def merged_documents(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The JSON of one DoclingDocument: the lists of items one after the other, and references moved along with them."""
    whole: dict[str, Any] = dict(documents[0])
    for document in documents[1:]:
        offsets = {name: len(whole.get(name) or ()) for name, items in document.items() if isinstance(items, list)}
        for name, value in document.items():
            whole[name] = _added(whole.get(name), name, _moved(value, offsets))
    return whole


def _added(before: Any, name: str, value: Any) -> Any:
    match before, value:
        case list(), list():
            return [*before, *value]
        case dict(), dict() if name == "pages":
            return before | value
        case dict(), {"children": list(children)}:  # the body, or what is in the margins
            return before | {"children": [*before.get("children", ()), *children]}
        case None, _:
            return value
        case _:
            return before


def _moved(value: Any, offsets: Mapping[str, int]) -> Any:
    match value:
        case dict():
            return {
                key: _moved_reference(each, offsets) if key in _REFERRING else _moved(each, offsets)
                for key, each in value.items()
            }
        case list():
            return [_moved(each, offsets) for each in value]
        case _:
            return value


def _moved_reference(reference: Any, offsets: Mapping[str, int]) -> Any:
    found = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
    if found is None or found[1] not in offsets:
        return reference
    return f"#/{found[1]}/{int(found[2]) + offsets[found[1]]}{found[3] or ''}"
