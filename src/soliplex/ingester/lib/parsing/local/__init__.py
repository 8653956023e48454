"""The local parser: docling in this process, with models that come inside the packages. No torch, no download.

    local_parser.py  LocalParser: which way a document goes, and the fall-back where too little text comes out
    converters.py    docling's converters, made once for each set of options and kept
    pipeline.py      docling's pipeline for pages, told the three models that follow
    layout.py        where on a page are headings, text, tables and figures
    marked.py        headings that the PDF itself tells, in place of what the model takes them for
    regions.py       … as a model sees them: PP-Layout
    lines.py         what the type of a line tells: headings that were overlooked, and text that was left out
    page_tables.py   the tables of a page and their cells: from tags, or else by the two that follow
    table_grids.py   rows and columns, from lines, shades and where words stand
    spaced_tables.py tables that nothing is drawn around, and that the layout model has not seen
    ocr.py           pages that are pictures: rapidocr
    tiles.py         how large a page is drawn, and where it is cut to be read
    turning.py       pages that lie on their side or on their head
    pictures.py      pictures of more pixels than it takes to read them
    legacy.py        what only LibreOffice reads, saved by it in a format that docling reads

Owns everything about docling's conversion classes, which nothing outside imports. A conversion may crash or hang in
C++: the engine calls this parser in a process that it can kill.
"""

from __future__ import annotations

from soliplex.ingester.lib.parsing.local.local_parser import LocalParser

__all__ = ["LocalParser"]
