"""What a person can do about a document that cannot be read, by its kind: the one table of such advice.

A library says "list index out of range"; whoever sent the document has to be told what to do with it. The library's own
words stay in the traceback of the step (`status_meta`), for whoever looks for the fault in a program.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Advice(NamedTuple):
    """What the document is called, and what to do where it cannot be read."""

    noun: str
    remedy: str


GET_AGAIN: Final = "get the file again from where it came, and ingest it whole"
SAVE_AGAIN: Final = "open it in the program that made it, save it again, and ingest the new file"
UNLOCK: Final = "remove the protection and ingest it again"
REMOVE_ENTITIES: Final = "remove its document type and entities, and ingest it again"
SPLIT: Final = "if it is meant to be so, split it and ingest the parts"
CONVERT: Final = "convert it to PDF, or to a format of text, and ingest that"

_OFFICE: Final = "open it in an office program, save it as {} again, and ingest the new file"
_TODAY: Final = "open it in an office program, save it as {}, and ingest that"
_PICTURE: Final = Advice("picture", "open it in a viewer, save it as PNG, and ingest that")
_ADVICE: Final = {
    ".pdf": Advice("PDF", "open it in a viewer, print it to a new PDF, and ingest that"),
    ".docx": Advice("Word document", _OFFICE.format(".docx")),
    ".pptx": Advice("presentation", _OFFICE.format(".pptx")),
    ".xlsx": Advice("workbook", _OFFICE.format(".xlsx")),
    ".odt": Advice("text document", _OFFICE.format(".odt")),
    ".ods": Advice("spreadsheet", _OFFICE.format(".ods")),
    ".odp": Advice("presentation", _OFFICE.format(".odp")),
    ".doc": Advice("Word document", _TODAY.format(".docx")),
    ".ppt": Advice("presentation", _TODAY.format(".pptx")),
    ".xls": Advice("workbook", _TODAY.format(".xlsx")),
    ".rtf": Advice("RTF document", _TODAY.format(".docx")),
    ".epub": Advice("book", "convert it to EPUB or PDF by a program for books, and ingest that"),
    ".msg": Advice("message", "open it in Outlook, save it as .msg or .eml again, and ingest that"),
    ".eml": Advice("mail", "open it in a mail program, save it again, and ingest that"),
    **dict.fromkeys((".png", ".jpg", ".tiff", ".gif", ".bmp", ".webp"), _PICTURE),
}
_ANY: Final = Advice("document", SAVE_AGAIN)


def advice_for(extension: str) -> Advice:
    """By the extension under which docling knows the kind (`parsing.formats`)."""
    return _ADVICE.get(extension, _ANY)
