"""Whether a document can be read, and what it says about itself.

    checking.py    validate(): from a file to its type, its facts, or the reason why it is refused
    pdf.py         pages, encryption, title and author
    archives.py    bounds on what a ZIP may unpack to
    office.py      the parts of Office Open XML, OpenDocument and EPUB files, and their metadata
    compound.py    the same for Word, Excel and PowerPoint of before 2007, and Outlook messages
    markup.py      XML: its entities, and whether it is whole
    image.py       size and frames
    mail.py        headers
    facts.py       what documents say about themselves, under the same names in every format
    remedies.py    what a person can do about a document that cannot be read

Owns the judgement of files as they come from outside: nothing in them is believed before it is checked, and nothing is
read without a bound. Knows no storage, no steps and no parsers. Files made to crash their readers may still crash the
C libraries used here, so the engine calls it in a process of its own.
"""

from __future__ import annotations

from soliplex.ingester.lib.validation.checking import Validated, validate
from soliplex.ingester.lib.validation.errors import Defect, InvalidDocumentError

__all__ = ["Defect", "InvalidDocumentError", "Validated", "validate"]
