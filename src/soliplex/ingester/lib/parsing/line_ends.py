"""Words that end a line with a hyphen: whether it divides the word, or belongs to it.

`experi-` and `ments` are one word; `well-` and `known` keep their hyphen. No reader of a page knows which. So readers
put a soft hyphen where a line ended with a hyphen, and when the whole document is read, the document tells: by how it
writes the word where no line ends. Where it says nothing of the word, what it does with most others tells whether it
divides words at all: office documents and web pages mostly do not. Else the hyphen goes. No list of words is asked:
documents have too many languages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final

DIVIDED: Final = "\u00ad"
"""Stands where a line ended with a hyphen."""
HYPHENS: Final = ("-", "\u2010", DIVIDED, "\x02")
"""What ends such a line; the last is PDFium's mark."""
ENOUGH: Final = 2
"""So many more words that keep their hyphens than others tell that the document divides none."""
_LINE_END: Final = re.compile("(?<=[^\\W_])(?:[\x02\ufffe\u00ad]|[-\u2010](?=\\n))\\s*(?=[^\\W_])")
_MARK_OF_PDFIUM: Final = re.compile("[\x02\ufffe]")
_DIVIDED_WORD: Final = re.compile(f"(?<![^\\W_])([^\\W_]++){DIVIDED}(?=([^\\W_]+))")
"""Looked for where a word begins, and nowhere in it: a line of code may be one word of a million letters."""
_WORD: Final = re.compile("[^\\W_]+(?:[-\u2010\u2011][^\\W_]+)*")
_HYPHEN: Final = re.compile("[-\u2010\u2011]")


def with_mark(line: str, following: str) -> str:
    """The line, with the mark in the place of a hyphen that stands between its last word and the first of the next."""
    is_inside_word = len(line) > 1 and line[-1] in HYPHENS and line[-2].isalnum() and following[:1].isalnum()
    return line[:-1] + DIVIDED if is_inside_word else line


def with_marks(text: str) -> str:
    """The text of a page as PDFium reads it, with marks in the place of such hyphens and of the ends of their lines."""
    return _MARK_OF_PDFIUM.sub("-", _LINE_END.sub(DIVIDED, text))


def mended(texts: Sequence[str]) -> list[str]:
    """The texts of a document with each mark gone, or a hyphen in its place."""
    pairs = Counter(_pair(found) for text in texts for found in _DIVIDED_WORD.finditer(text))
    if not pairs:
        return list(texts)
    whole, hyphenated = _written(texts, pairs)
    balance = {pair: hyphenated[pair] - whole["".join(pair)] for pair in pairs}
    told = sum((balance[pair] > 0) - (balance[pair] < 0) for pair in pairs.elements()) >= ENOUGH

    def put(found: re.Match[str]) -> str:
        is_kept = _tell_by_themselves(found[1], found[2]) or (balance[_pair(found)] or told) > 0
        return f"{found[1]}-" if is_kept else found[1]

    return [_DIVIDED_WORD.sub(put, text) for text in texts]


def _pair(found: re.Match[str]) -> tuple[str, str]:
    return found[1].casefold(), found[2].casefold()


def _tell_by_themselves(one: str, other: str) -> bool:
    """Whether the two halves have a hyphen wherever they stand: `COVID-19`, `2019-2020`, `Anglo-Saxon`."""
    return one[-1].isdigit() or other[0].isdigit() or (one[-1].islower() and other[0].isupper())


def _written(texts: Iterable[str], asked: Collection[tuple[str, str]]) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """How often these words stand in the texts in one piece, and with a hyphen."""
    pieces = {"".join(pair) for pair in asked}
    whole, hyphenated = Counter[str](), Counter[tuple[str, str]]()
    for text in texts:
        for found in _WORD.finditer(_DIVIDED_WORD.sub(" ", text)):
            parts = _HYPHEN.split(found.group().casefold())
            whole.update(part for part in parts if part in pieces)
            hyphenated.update(pair for pair in pairwise(parts) if pair in asked)
    return whole, hyphenated
