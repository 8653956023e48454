"""What an article is called, and the path of headings that it belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile, takewhile
from typing import Final

from soliplex.ingester.segmenter.markdown_blocks import plain, without_front_matter
from soliplex.ingester.segmenter.sentences import sentence_ends
from soliplex.ingester.segmenter.units import Unit

LONGEST: Final = 100
"""Characters of a title."""
_BETWEEN_HEADINGS: Final = " > "
_BETWEEN_SECTIONS: Final = " · "
_FIRST_WORDS: Final = 10
_FEWEST_LETTERS: Final = 4
_LOOKED_AT: Final = 2000
_LABEL: Final = re.compile(r"[^\W\d_]+\.?\s+\d[\w.-]*\s*")
"""What stands before a caption, such as `Figure 2.`: it looks like a sentence, and says nothing without the next."""
_MARKS: Final = re.compile(r"^[\s>]*(?:[-*+]|\d{1,9}[.)]|#{1,6}|```\w*|~~~\w*)?(?=\s|$)")
_RULES: Final = re.compile(r"\|[\s|:-]*|(?:[.\u2026_-]\s?){4,}")
"""Marks that are no words: between the cells of a table, below its header, before the page numbers of contents."""


def group_of(units: Sequence[Unit]) -> str:
    """The headings that all of the article stands below, from the outermost to the innermost."""
    shared = units[0].path
    for unit in units[1:]:
        same = takewhile(lambda pair: pair[0] == pair[1], zip(shared, unit.path, strict=False))
        shared = tuple(heading for heading, _ in same)
    return _BETWEEN_HEADINGS.join(shared)


def title_of(units: Sequence[Unit], body: str) -> str:
    """The headings of the article's sections; where it begins within a section, its first words."""
    if units[0].level:
        return shortened(_BETWEEN_SECTIONS.join(dict.fromkeys(_sections(units))))
    made = made_of_text(body)
    return shortened(made or (units[0].path[-1] if units[0].path else " ".join(body.split())))


def _sections(units: Sequence[Unit]) -> list[str]:
    """The heading that the article begins with, and those of the outermost level after it."""
    outermost = min(unit.level for unit in units if unit.level)
    return [units[0].heading, *(unit.heading for unit in units[1:] if unit.level == outermost)]


def made_of_text(body: str) -> str:
    """The first sentence where that is short, else its first words; nothing where there are no words."""
    lines = [_words_of(line) for line in without_front_matter(body)[:_LOOKED_AT].splitlines()]
    begun = dropwhile(lambda line: not _says_something(line), lines)
    text = " ".join(takewhile(bool, begun))
    label = _LABEL.match(text)
    begins = label.end() if label else 0
    first = text[: next((end for end in sentence_ends(text) if end > begins), len(text))].strip()
    words = first.split()
    return first.rstrip(".:;,\u3002") if len(words) <= _FIRST_WORDS else " ".join(words[:_FIRST_WORDS]) + " …"


def _words_of(line: str) -> str:
    """A line without what marks it as an item, a quotation or a row."""
    return plain(_RULES.sub(" ", _MARKS.sub("", line)))


def _says_something(line: str) -> bool:
    # A number by itself, or a letter, is what parsers leave of page margins and formulas.
    return sum(map(str.isalpha, line)) >= _FEWEST_LETTERS


def shortened(text: str) -> str:
    """The text, cut between words where it is too long for a title."""
    if len(text) <= LONGEST:
        return text
    cut = text[: LONGEST - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[LONGEST // 2 :] else cut).rstrip() + "…"
