"""DoclingDocuments made of plain paragraphs, and what is read off any of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from soliplex.ingester.lib.docling_markdown import markdown_of
from soliplex.ingester.lib.parsing.results import Parsed

if TYPE_CHECKING:
    from docling_core.types.doc.document import DoclingDocument

    from soliplex.ingester.lib.parsing.coverage import Coverage

SEARCHED_FOR_TITLE: Final = 10
"""Items at the beginning among which a title is looked for; a heading further down is one of a section."""

MOST_PARAGRAPHS: Final = 50_000
"""Most paragraphs of a document without pages. Each takes kilobytes as an object: more are put together."""
JOINED: Final = 2000


@dataclass(frozen=True, slots=True)
class PageText:
    """The paragraphs of one page, and its size in points."""

    number: int
    width: float
    height: float
    paragraphs: Sequence[str]
    text: str = ""
    """The text as it was read, before its lines are put together."""
    is_picture: bool = False
    """Whether the page shows pictures and next to no text."""
    is_lost: bool = False
    """Whether the file names the page and does not hold it, or not in one piece."""


def of_paragraphs(name: str, paragraphs: Iterable[str], *, is_source: bool = False) -> DoclingDocument:
    """A document without pages. Source, whose line breaks count, is kept as code."""
    from docling_core.types.doc.document import DoclingDocument  # noqa: PLC0415  slow to import
    from docling_core.types.doc.labels import DocItemLabel  # noqa: PLC0415

    document = DoclingDocument(name=name)
    for paragraph in _few_enough(list(paragraphs)):
        if is_source:
            document.add_code(text=paragraph)
        else:
            document.add_text(label=DocItemLabel.PARAGRAPH, text=paragraph)
    return document


def _few_enough(paragraphs: Sequence[str]) -> Iterable[str]:
    return paragraphs if len(paragraphs) <= MOST_PARAGRAPHS else joined(paragraphs, JOINED)


def joined(lines: Iterable[str], size: int) -> Iterator[str]:
    """Lines put together to texts of about so many characters; a longer line stays whole."""
    together: list[str] = []
    length = 0
    for line in lines:
        if together and length + len(line) > size:
            yield "\n".join(together)
            together, length = [], 0
        together.append(line)
        length += len(line) + 1
    if together:
        yield "\n".join(together)


def of_pages(name: str, pages: Iterable[PageText]) -> DoclingDocument:
    """A document whose paragraphs know their page, though not their place on it."""
    from docling_core.types.doc.base import BoundingBox, CoordOrigin, Size  # noqa: PLC0415  slow to import
    from docling_core.types.doc.common.reference import ProvenanceItem  # noqa: PLC0415
    from docling_core.types.doc.document import DoclingDocument  # noqa: PLC0415
    from docling_core.types.doc.labels import DocItemLabel  # noqa: PLC0415

    document = DoclingDocument(name=name)
    for page in pages:
        document.add_page(page_no=page.number, size=Size(width=page.width, height=page.height))
        box = BoundingBox(l=0, b=0, r=page.width, t=page.height, coord_origin=CoordOrigin.BOTTOMLEFT)
        for text in page.paragraphs:
            place = ProvenanceItem(page_no=page.number, bbox=box, charspan=(0, len(text)))
            document.add_text(label=DocItemLabel.TEXT, text=text, prov=place)
    return document


def to_parsed(
    document: DoclingDocument,
    *,
    markdown: str | None = None,
    warnings: tuple[str, ...] = (),
    coverage: Coverage | None = None,
) -> Parsed:
    """Markdown, JSON, the number of pages and the title of a document. What is Markdown already is kept as it is."""
    exported = document.export_to_dict()
    return Parsed(
        markdown=markdown_of(document) if markdown is None else markdown,
        document=exported,
        pages=len(document.pages) or None,
        title=title_of(exported),
        warnings=warnings,
        coverage=coverage,
    )


def title_of(document: Mapping[str, Any]) -> str | None:
    """What the document calls itself: its title, or a heading at its very beginning."""
    beginning = document.get("texts", [])[:SEARCHED_FOR_TITLE]
    for label in ("title", "section_header"):
        for item in beginning:
            if item.get("label") == label and (text := " ".join(item.get("text", "").split())):
                return text
    return None


def text_length(document: DoclingDocument) -> int:
    """How many letters and digits the texts and tables of the body have."""
    from docling_core.types.doc.common.content_layer import ContentLayer  # noqa: PLC0415  loaded with any document

    texts: list[str] = [item.text for item in document.texts if item.content_layer is ContentLayer.BODY]
    texts += [cell.text for table in document.tables for cell in table.data.table_cells]
    return sum(count_alphanumeric(text) for text in texts)


def count_alphanumeric(text: str) -> int:
    """How many letters and digits a text has.

    Spaces and dots are not counted, since each reader sees them differently.
    """
    return sum(map(str.isalnum, text))


def load(document: dict[str, Any]) -> DoclingDocument:
    from docling_core.types.doc.document import DoclingDocument  # noqa: PLC0415  slow to import

    return DoclingDocument.model_validate(document)
