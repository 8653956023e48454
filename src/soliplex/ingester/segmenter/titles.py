"""What an article is called, and the path of headings that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from soliplex.ingester.segmenter.markdown_blocks import plain, without_front_matter
from soliplex.ingester.segmenter.sentences import sentence_ends
from soliplex.ingester.segmenter.units import Unit

LONGEST: Final = 100
"""Characters of a title."""
_BETWEEN_HEADINGS: Final = " > "
_BETWEEN_SECTIONS: Final = " · "
_FIRST_WORDS: Final = 10


def group_of(units: Sequence[Unit]) -> str:
    """The headings that all of the article stands below, from the outermost to the innermost."""
    shared = units[0].path
    for unit in units[1:]:
        same = takewhile(lambda pair: pair[0] == pair[1], zip(shared, unit.path, strict=False))
        shared = tuple(heading for heading, _ in same)
    return _BETWEEN_HEADINGS.join(shared)


def title_of(units: Sequence[Unit], body: str) -> str:
    """The headings of the article's sections; where it begins within a section, its first words."""
    return shortened(_BETWEEN_SECTIONS.join(_sections(units))) if units[0].level else made_of_text(body)


def _sections(units: Sequence[Unit]) -> list[str]:
    """The heading that the article begins with, and those of the outermost level after it."""
    outermost = min(unit.level for unit in units if unit.level)
    return [units[0].heading, *(unit.heading for unit in units[1:] if unit.level == outermost)]


def made_of_text(body: str) -> str:
    """The first sentence where that is short, else its first words."""
    text = plain(" ".join(takewhile(str.strip, without_front_matter(body).strip().lstrip("#>-*+| \t").splitlines())))
    first = text[: next(sentence_ends(text), len(text))].strip()
    words = first.split()
    return shortened(first.rstrip(".:;,") if len(words) <= _FIRST_WORDS else " ".join(words[:_FIRST_WORDS]) + " …")


def shortened(text: str) -> str:
    """The text, cut between words where it is too long for a title."""
    if len(text) <= LONGEST:
        return text
    cut = text[: LONGEST - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[LONGEST // 2 :] else cut).rstrip() + "…"
