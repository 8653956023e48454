"""Texts in notations that no parser here knows, as Markdown: their headings, code, lists and tables.

A converter takes the text and gives Markdown. It keeps every word that a reader of the page would see; what it does not
know, it leaves as it stands. One that cannot make sense of a text raises NotationError, and the text is read as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from soliplex.ingester.lib.parsing.notations.docbook import docbook_as_markdown
from soliplex.ingester.lib.parsing.notations.errors import NotationError
from soliplex.ingester.lib.parsing.notations.notebook import notebook_as_markdown
from soliplex.ingester.lib.parsing.notations.opml import opml_as_markdown
from soliplex.ingester.lib.parsing.notations.org import org_as_markdown
from soliplex.ingester.lib.parsing.notations.restructured import restructured_as_markdown
from soliplex.ingester.lib.parsing.notations.typst import typst_as_markdown

__all__ = ["NOTATIONS", "NotationError"]

NOTATIONS: Final[dict[str, Callable[[str], str]]] = {
    "application/x-ipynb+json": notebook_as_markdown,
    "text/x-docbook": docbook_as_markdown,
    "text/x-opml": opml_as_markdown,
    "text/x-org": org_as_markdown,
    "text/x-rst": restructured_as_markdown,
    "text/x-typst": typst_as_markdown,
}
