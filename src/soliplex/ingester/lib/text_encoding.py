"""In which encoding a text file is written.

UTF-8 explains itself: hardly any other text is valid as it. Everything older is a guess, made from a sample, and the
guess is told so that whoever reads the text knows.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

BLOCK: Final = 1 << 20
SAMPLE: Final = 64 << 10
"""Bytes from which an encoding is guessed. A guess from more is slow and no better."""
WESTERN: Final = "cp1252"
"""What old text most often is where nothing else fits, and what decodes every byte it defines."""
_MOSTLY: Final = 0.7
"""Share of zeros in every second byte, as Western text has them in two bytes a character."""
LONGEST_WORD: Final = 60
MOST_ODD_WORDS: Final = 0.3
"""Share of words that are too long, or have capitals in their middle. Names in programs do."""
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_CONTROLS: Final = frozenset(range(32)) - frozenset(b"\t\n\r\f\x1b")
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def encoding_of(path: Path) -> str:
    """The encoding that the whole file can be decoded with, read in blocks."""
    with path.open("rb") as file:
        head = file.read(SAMPLE)
    if wide := wide_encoding(head):
        return wide
    return "utf-8" if _is_utf8(path) else guess_encoding(head) or WESTERN


def wide_encoding(head: bytes) -> str | None:
    """The Unicode encoding that the beginning of a file bears the mark of, or is full of the zeros of."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    for encoding, zeros, others in (("utf-16-le", head[1::2], head[::2]), ("utf-16-be", head[::2], head[1::2])):
        if zeros and zeros.count(0) > len(zeros) * _MOSTLY and not others.count(0):
            return encoding
    return None


def read_text(path: Path, encoding: str | None = None) -> str:
    """The whole text. What its encoding does not explain becomes U+FFFD, and NUL, which no store takes, is left out."""
    text = path.read_bytes().decode(encoding or encoding_of(path), "replace")
    return text.replace("\x00", "")


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for block in _blocks(path):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block


def guess_encoding(sample: bytes) -> str | None:
    """The encoding of one byte a character, or an Asian one, in which this makes words; None if it does in none."""
    from charset_normalizer import from_bytes  # noqa: PLC0415  slow to import, and seldom needed

    if _CONTROLS & set(sample):
        return None
    best = from_bytes(sample[:SAMPLE]).best()
    if best is None or not makes_words(sample[:SAMPLE].decode(best.encoding, "replace")):
        return None
    return best.encoding


def makes_words(text: str) -> bool:
    """Whether the letters of scripts with capitals stand in them as words have them: `WORD`, `Word` or `word`.

    The bytes of a picture or a sound are letters, too, in some encoding of before Unicode, in any mixture.
    """
    words = [word for word in _WORD.findall(text) if word.upper() != word.lower()]
    odd = sum(not (word.isupper() or word[1:].islower() or word.islower()) for word in words)
    too_long = sum(len(word) > LONGEST_WORD for word in words)
    return odd + too_long <= len(words) * MOST_ODD_WORDS
