"""The Markdown of a docling document, in time that grows with its length alone.

docling looks for pictures in each text, whose addresses it leaves as they are, by a pattern that tries every end of
every picture for every beginning: a text of some kilobytes that begins many pictures and ends none keeps it busy for
hours, and meanwhile no other thread of the process goes on. So its search is replaced by one that finds the same, and
reads each text once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from docling_core.types.doc.document import DoclingDocument

_UNDERSCORE: Final = re.compile(r"(?<!\\)_")


def markdown_of(document: DoclingDocument) -> str:
    """The document as docling writes it."""
    mend_docling()
    return document.export_to_markdown()


def mend_docling() -> None:
    """Put the replacement in its place: for all who write Markdown by docling in this process."""
    from docling_core.transforms.serializer.markdown import MarkdownDocSerializer  # noqa: PLC0415  slow to import

    serializer: Any = MarkdownDocSerializer
    serializer._escape_underscores = staticmethod(escape_underscores)  # noqa: SLF001  it takes no other


def escape_underscores(text: str) -> str:
    """Escape underscores, but for those of pictures, `![words](address)`."""
    parts, done = list[str](), 0
    for start, end in _pictures(text):
        parts += _escaped(text[done:start]), text[start:end]
        done = end
    return "".join([*parts, _escaped(text[done:])])


def _pictures(text: str) -> Iterator[tuple[int, int]]:
    """Where pictures begin and end. None goes on into the next line."""
    at = 0
    while (start := text.find("![", at)) >= 0:
        line_end = text.find("\n", start)
        line_end = len(text) if line_end < 0 else line_end
        address = text.find("](", start + 2, line_end)
        end = text.find(")", address + 2, line_end) if address >= 0 else -1
        if end >= 0:
            yield start, end + 1
            at = end + 1
        else:
            at = line_end  # whatever begins later in this line does not end in it either


def _escaped(text: str) -> str:
    return _UNDERSCORE.sub(r"\\_", text)
