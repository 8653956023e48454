"""Sentences whose language is known: how many the detector of this process tells.

Beside those of the folder of data stand eight sentences each in 75 languages, from the Universal Declaration of Human
Rights as the United Nations publish its translations (`declaration.jsonl`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.documents.data import Data, json_lines
from benchmarks.report import Line, Result, Target
from soliplex.ingester.lib.language import language_of

DECLARATION: Final = Path(__file__).with_name("declaration.jsonl")
LINES: Final = (
    Line("languages that are told rightly, share", "language_accuracy", Target(0.98)),
    Line("… of sentences in 75 languages", "language_accuracy_75", Target(0.94)),
)


def measure(data: Data) -> Result:
    ours, theirs = _told(data.path("language", "sentences.jsonl")), _told(DECLARATION)
    return {
        "language_accuracy": _share(ours),
        "language_sentences": len(ours),
        "language_accuracy_75": _share(theirs),
        "language_sentences_75": len(theirs),
    }


def _told(path: Path) -> list[bool]:
    """For each sentence, whether its language is told."""
    return [language_of(row["text"]) == row["lang"] for row in json_lines(path)]


def _share(told: list[bool]) -> float:
    return round(sum(told) / len(told), 4)
