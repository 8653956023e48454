"""How much of PDFs is read as it should be: their words, which of them are headings, and the cells of tables.

The truth is Markdown that was reviewed. Words are counted as a bag: their order in a table or a picture is a matter of
taste. Each document weighs the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from html import unescape
from statistics import fmean
from typing import Final

from benchmarks.report import Result

_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_HEADING: Final = re.compile(r"^#{1,6}\s+(.+)$", re.MULTILINE)
_WORD: Final = re.compile(r"[^\W_]+")
_ROW: Final = re.compile(r"^\|(.*)\|\s*$", re.MULTILINE)
_RULE: Final = re.compile(r"[\s|:-]+")
_CELL_END: Final = re.compile(r"(?<!\\)\|")


def scores(read: Sequence[str], truths: Sequence[str]) -> Result:
    """The mean over documents that were read, against their true Markdown."""
    return {"words_f1": _mean_f1(words, read, truths), "headings_f1": _mean_f1(headings, read, truths)}


def _mean_f1(parts: Callable[[str], Counter[str]], read: Sequence[str], truths: Sequence[str]) -> float:
    """Over the documents that have such parts, or are read as if they had."""
    found = [f1(parts(ours), parts(truth)) for ours, truth in zip(read, truths, strict=True)]
    return fmean([score for score in found if score is not None] or [0.0])


def words(markdown: str) -> Counter[str]:
    return Counter(_WORD.findall(_COMMENT.sub(" ", markdown).lower()))


def headings(markdown: str) -> Counter[str]:
    """The headings, whatever their level: that is lost in most PDFs."""
    return Counter(" ".join(_WORD.findall(found.lower())) for found in _HEADING.findall(_COMMENT.sub(" ", markdown)))


def cells(markdown: str) -> Counter[str]:
    """The texts of the cells of all tables, empty ones left out: a cell that is torn in two is none of the source."""
    rows = (row for row in _ROW.findall(_COMMENT.sub(" ", markdown)) if not _RULE.fullmatch(row))
    texts = (" ".join(_WORD.findall(unescape(cell).lower())) for row in rows for cell in _CELL_END.split(row))
    return Counter(text for text in texts if text)


def structure(read: Sequence[str], truths: Sequence[str]) -> Result:
    """Cells and headings: the mean over documents that have such, or are read as if they had."""
    return {"cells_f1": _mean_f1(cells, read, truths), "headings_f1": _mean_f1(headings, read, truths)}


def f1(ours: Counter[str], truth: Counter[str]) -> float | None:
    """The harmonic mean of precision and recall; None where there is nothing to be found, and nothing was."""
    everything = ours.total() + truth.total()
    return 2 * (ours & truth).total() / everything if everything else None
