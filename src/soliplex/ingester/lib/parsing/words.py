"""Words of a text, so that two readers of one page can be compared.

Readers differ in what is no matter of words: ligatures, the form of a letter, marks above and below, hyphens at the end
of a line, and the order in which PDFium gives the letters of the Arabic ligatures of lam and alef. `words_of` takes
these away. Chinese, Japanese, Thai and their like have no spaces, so there each letter counts as a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_LAM_ALEF: Final = re.compile("[\u0622\u0623\u0625\u0627\u0644\u0671]{2,}")
_TATWEEL: Final = "\u0640"
_CURSIVE: Final = "[\u0600-\u06ff\u0700-\u074f\u0750-\u077f\u08a0-\u08ff\ufb50-\ufdff\ufe70-\ufefc]"
CURSIVE_WORD: Final = re.compile(f"{_CURSIVE}+")
"""Scripts whose letters join: a space that a reader sees inside a word of these is a gap between two strokes."""
_STRETCHED: Final = re.compile(f"({_CURSIVE})\\1+")
"""Their words are stretched to fill a line, by repeated strokes or letters, which readers count differently."""
LINE_END_HYPHEN: Final = re.compile("(?<=\\w)(?:\x02|\ufffe|\u00ad|-\n(?=[^\\W\\d_A-Z])|\u2010\n)\\s*")
"""PDFium marks a hyphen at the end of a line by U+0002, or leaves it with its line break."""
LAST_SCRIPT: Final = 0x20000
"""Code points from here on are not searched for marks: nearly all of them are Chinese characters."""
_UNREADABLE: Final = frozenset({"Cc", "Co", "Cn", "Cs"})
_ALLOWED_CONTROLS: Final = frozenset("\t\n\r\x02")
MOST_UNREADABLE: Final = 0.5
"""Share of characters without a meaning, from which on the text of a page is rubbish: a font without a table of its
letters gives nothing else, and few pages are set in more than two fonts. Else the rest is worth reading."""


class Word(NamedTuple):
    """A word as it is compared, and where it stands in its text."""

    key: str
    start: int
    end: int


@cache
def _word_pattern() -> re.Pattern[str]:
    marks = "".join(chr(code) for code in range(LAST_SCRIPT) if unicodedata.category(chr(code))[0] == "M")
    return re.compile(f"[^\\W_][^\\W_]*(?:[{re.escape(_ranges(marks))}{_TATWEEL}]+[^\\W_]*)*".replace("\\-", "-"))


def _ranges(characters: str) -> str:
    """Write code points as ranges of a character class: there are thousands of marks."""
    found: list[list[int]] = []
    for code in map(ord, characters):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return "".join(chr(first) if first == last else f"{chr(first)}-{chr(last)}" for first, last in found)


def joined_lines(text: str) -> str:
    """The text of a page with one kind of line break, and words whole that were divided at the end of a line."""
    return LINE_END_HYPHEN.sub("", one_kind_of_lines(text))


def one_kind_of_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def words_of(text: str) -> list[Word]:
    """The words of a text in its order."""
    if text.isascii():
        return [Word(found.group(), *found.span()) for found in _ASCII_WORD.finditer(text.lower())]
    return list(_words(text))


def _words(text: str) -> Iterator[Word]:
    for found in _word_pattern().finditer(text):
        raw, start = found.group(), found.start()
        if raw.isascii():
            yield Word(raw.lower(), start, found.end())
        elif _UNSPACED.search(raw):
            yield from _letters(raw, start)
        elif key := _key(raw):
            # A sign such as ½ becomes several words when it is written out.
            yield from (Word(part, start, found.end()) for part in re.findall(r"[^\W_]+", key))


def _letters(raw: str, start: int) -> Iterator[Word]:
    for place, letter in enumerate(raw, start):
        yield from (Word(each, place, place + 1) for each in _key(letter))


@cache
def _key(raw: str) -> str:
    plain = unicodedata.normalize("NFKC", raw).casefold()
    plain = "".join(letter for letter in plain if unicodedata.category(letter)[0] != "M" and letter != _TATWEEL)
    return _STRETCHED.sub(r"\1", _LAM_ALEF.sub(lambda run: "".join(sorted(run.group())), plain))


def is_rubbish(text: str) -> bool:
    """Whether the text of a page says nothing: too many of its characters have no meaning.

    Those are U+FFFD, control characters, code points of nobody and code points for private use.
    """
    characters = [each for each in text if not each.isspace() and each not in _ALLOWED_CONTROLS]
    if not characters:
        return False
    counts = Counter(characters)
    unreadable = sum(
        count
        for each, count in counts.items()
        if each in "\ufffd\ufffe\uffff" or unicodedata.category(each) in _UNREADABLE
    )
    return unreadable > MOST_UNREADABLE * len(characters)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Which of a page's words were read."""

    missing: tuple[int, ...]
    """The words of the page that were not read, as their places among all its words."""
    run_together: dict[str, tuple[int, int]]
    """Words of the result that are several of the page's without the space between them: which, the last exclusive."""
    torn_apart: frozenset[str]
    """Words of the page that the result holds in several pieces."""


def compare(page: Sequence[Word], result: Sequence[Word]) -> Comparison:
    """Find each word of the page in the result, as often as it stands there, in whatever order.

    A word of the page that PDFium put together of several that stand close to each other is found by its parts. A word
    of the result that is several of the page's is told in `run_together`, and counts for none of them, unless one of
    these is a single letter: then it is PDFium that has torn a word apart.
    """
    counts = Counter(word.key for word in result)
    known = Counter(word.key for word in page)
    missing = _not_among(page, counts)
    if not missing:
        return Comparison((), {}, frozenset())
    unexplained = Counter({key: count for key, count in counts.items() if count})
    run_together, explained = _run_together(page, unexplained, known)
    missing = [place for place in missing if place not in explained]
    torn = [place for place in missing if _in_pieces(page[place].key, unexplained)]
    found_in_pieces = set(torn)
    return Comparison(
        tuple(place for place in missing if place not in found_in_pieces),
        run_together,
        frozenset(page[place].key for place in torn),
    )


def _not_among(page: Sequence[Word], counts: Counter[str]) -> list[int]:
    """The places of words that are not among those counted. Each that is found is taken out of the counts."""
    missing: list[int] = []
    for place, word in enumerate(page):
        if counts[word.key] > 0:
            counts[word.key] -= 1
        else:
            missing.append(place)
    return missing


def _run_together(
    page: Sequence[Word], unexplained: Counter[str], known: Counter[str]
) -> tuple[dict[str, tuple[int, int]], set[int]]:
    candidates = [key for key in unexplained if len(key) > 1 and key not in known]
    if not candidates:
        return {}, set()
    letters = "".join(word.key for word in page)
    starts: dict[int, int] = {}
    length = 0
    for place, word in enumerate(page):
        starts[length] = place
        length += len(word.key)
    starts[length] = len(page)
    found: dict[str, tuple[int, int]] = {}
    explained: set[int] = set()
    for key in candidates:
        at = letters.find(key)
        while at >= 0:
            first, last = starts.get(at), starts.get(at + len(key))
            if first is not None and last is not None and last - first > 1:
                if any(len(word.key) == 1 and word.key.isalpha() for word in page[first:last]):
                    explained.update(range(first, last))
                    unexplained[key] -= 1
                    if not unexplained[key]:
                        break
                else:
                    found[key] = first, last
                    break
            at = letters.find(key, at + 1)
    return found, explained


LONGEST_IN_PIECES: Final = 60


def _in_pieces(key: str, unexplained: Counter[str]) -> bool:
    """Whether the word can be put together of what is left of the result; that is taken out of it, then."""
    if not 1 < len(key) <= LONGEST_IN_PIECES:
        return False
    pieces = _pieces(key, unexplained)
    if pieces is None:
        return False
    unexplained.subtract(pieces)
    return True


def _pieces(key: str, unexplained: Counter[str]) -> list[str] | None:
    """Part a word into pieces, the longest first. A wrong piece is not taken back, which loses a word now and then."""
    pieces: list[str] = []
    taken = Counter[str]()
    at = 0
    while at < len(key):
        piece = next(
            (key[at:end] for end in range(len(key), at, -1) if unexplained[key[at:end]] > taken[key[at:end]]), None
        )
        if piece is None:
            return None
        pieces.append(piece)
        taken[piece] += 1
        at += len(piece)
    return pieces
