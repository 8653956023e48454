"""Text that is written from right to left, brought into the order in which it is read.

Pages hold letters at places. Readers of PDF put them in order, and slip where scripts of two directions meet:

    PDFium     gives some words of Arabic from their last letter to their first, as programs print them that shape the
               letters themselves (browsers), and the letters of a ligature the wrong way round. The places tell.
    docling    gives words and letters right, but two Latin words in such a line as `Word Microsoft`, and what stands
               behind a word in the order in which it is seen: `.)` for `).`
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from soliplex.ingester.lib.parsing.page_lines import Box

type Letter = tuple[str, Box | None]

_LEFTWARDS: Final = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
HAS_LEFTWARDS: Final = re.compile(f"[{_LEFTWARDS}]")
_WORD_AND_BEHIND: Final = re.compile(f"(.*[{_LEFTWARDS}])([^{_LEFTWARDS}]+)")
_MARKS_BEFORE: Final = re.compile(r"\W*+")
_NUMBER_BEHIND_STOP: Final = re.compile(r"([.,;:!?%\u060c\u061b\u061f]+)(\d.*)")


@cache
def is_leftwards(letter: str) -> bool:
    """Whether the letter belongs to a script that is written from right to left."""
    return unicodedata.bidirectional(letter) in {"R", "AL"}


def runs_left(text: str) -> bool:
    """Whether most letters belong to such a script."""
    ways = Counter(map(unicodedata.bidirectional, text))
    return ways["R"] + ways["AL"] > ways["L"]


def in_reading_order(letters: Iterable[Letter]) -> Iterator[Letter]:
    """The letters of a page as PDFium gives them, with each word from right to left as it is read."""
    word: list[Letter] = []
    for letter, place in letters:
        if place is not None and (is_leftwards(letter) or (word and unicodedata.combining(letter))):
            word.append((letter, place))
            continue
        yield from _turned(word)
        word = []
        yield letter, place
    yield from _turned(word)


def _turned(word: Sequence[Letter]) -> Iterator[Letter]:
    steps = Counter(
        (one.left > other.left) - (one.left < other.left)
        for (_, one), (_, other) in pairwise(word)
        if one is not None and other is not None
    )
    if steps[-1] > steps[1]:
        yield from reversed(word)
        return
    # The letters of a ligature have one place.
    for _, group in groupby(word, key=lambda letter: letter[1]):
        yield from reversed(list(group))


def as_read(line: str) -> str:
    """A line as docling gives it, as it is read: what the line has of Latin words, and of marks behind a word."""
    if not HAS_LEFTWARDS.search(line) or not runs_left(line):
        return line
    words = [as_read_word(word) for word in line.split(" ")]
    found: list[str] = []
    for is_latin, run in groupby(words, key=_is_latin):
        found += list(run)[:: -1 if is_latin else 1]
    return " ".join(found)


def _is_latin(word: str) -> bool:
    return any(letter.isalpha() for letter in word) and not HAS_LEFTWARDS.search(word)


def as_read_word(word: str) -> str:
    """A word of such a line; docling has turned its brackets already."""
    if found := _NUMBER_BEHIND_STOP.fullmatch(word):
        return found[2] + found[1][::-1]
    found = _WORD_AND_BEHIND.fullmatch(word)
    if found is None:
        return word
    before, rest = _parted(found[2])
    behind, body = _parted(rest[::-1])
    return f"{found[1]}{behind}{body[::-1]}{before[::-1]}"


def _parted(text: str) -> tuple[str, str]:
    """The marks that it begins with, and what follows them."""
    marks = _MARKS_BEFORE.match(text)
    end = marks.end() if marks else 0
    return text[:end], text[end:]
