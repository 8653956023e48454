"""From a document's bytes to its text and structure.

    coverage.py        how much of a PDF came through; completing, page_lines and words help it
    pdf_marks.py       what a PDF says itself about its headings and tables
    results.py         Parser, the one interface; Parsed, what each of them gives
    options.py         the parameters of the parse step
    registry.py        parsers by name
    fast.py            text only: pdf_text, office_text and plain_text
    local/             docling in this process, with layout, tables and OCR
    serve/             docling on servers
    long_documents.py  long documents in parts, and the parts put together again
    formats.py         kinds of documents

Owns the way from bytes to a DoclingDocument. Knows no storage, no steps and no chunks. What runs in this process may
crash or hang on documents made for it: the engine calls it in a process that can be killed.
"""

from __future__ import annotations

from soliplex.ingester.lib.parsing.errors import (
    ParseFailedError,
    ParserMissingError,
    ParserUnavailableError,
    UnsupportedFormatError,
)
from soliplex.ingester.lib.parsing.long_documents import PageRange, count_pages, merged, page_ranges
from soliplex.ingester.lib.parsing.options import ParseOptions
from soliplex.ingester.lib.parsing.registry import chosen_parser_name, parse_blocking, parser_named, parser_names
from soliplex.ingester.lib.parsing.results import Parsed, Parser

__all__ = [
    "PageRange",
    "ParseFailedError",
    "ParseOptions",
    "Parsed",
    "Parser",
    "ParserMissingError",
    "ParserUnavailableError",
    "UnsupportedFormatError",
    "chosen_parser_name",
    "count_pages",
    "merged",
    "page_ranges",
    "parse_blocking",
    "parser_named",
    "parser_names",
]
