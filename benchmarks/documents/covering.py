"""How many words of PDFs reach the Markdown and the chunks.

Of office exports the words that were typed are known; of other PDFs the text layer is asked, by PDFium. A word is found
as often as it is both in the Markdown and in the chunks, headings of chunks included, each once: what is in no chunk
cannot be searched. Lines at the edge of a page that repeat what stands at the edge of an earlier one are asked for
once; pages whose text layer is rubbish are not asked for (`words.is_rubbish`). PDFs without a text layer do not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Final

from benchmarks.documents import exports
from benchmarks.report import Result
from soliplex.ingester.lib.chunking import Chunk
from soliplex.ingester.lib.parsing.completing import repeats
from soliplex.ingester.lib.parsing.pdf_text import page_texts
from soliplex.ingester.lib.parsing.words import Word, compare, is_rubbish, joined_lines, words_of

ENOUGH: Final = 0.97
EDGE: Final = 3
"""Lines at the top and at the bottom of a page among which headers and footers are."""
EXPORTS: Final = Path(exports.__file__).parent
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\([\\`*_{}\[\]()#+.!|-])")


@dataclass(frozen=True, slots=True)
class Read:
    """What became of a document."""

    markdown: str
    chunks: Sequence[Chunk]

    @property
    def plain_markdown(self) -> str:
        return _ESCAPED.sub(r"\1", unescape(_COMMENT.sub(" ", self.markdown)))

    @property
    def chunked(self) -> str:
        """The text of all chunks, and each path of headings once."""
        told: set[tuple[str, ...]] = set()
        texts: list[str] = []
        for chunk in self.chunks:
            path = tuple(chunk.metadata.headings)
            for depth in range(1, len(path) + 1):
                if path[:depth] not in told:
                    told.add(path[:depth])
                    texts.append(path[depth - 1])
            texts.append(chunk.content)
        return "\n".join(texts)


def words_in(pdf: Path) -> list[Word]:
    """The words that a reader should find."""
    source = pdf.with_suffix(".txt")
    if pdf.parent == EXPORTS:
        return words_of(source.read_text("utf-8"))
    return words_of("\n".join(without_repeats([page.text for page in page_texts(pdf)])))


def without_repeats(pages: Sequence[str]) -> list[str]:
    """The texts of pages that can be read, those lines left out that an earlier page has at its edge, too."""
    known: list[tuple[int, str]] = []
    kept: list[str] = []
    for number, text in enumerate(pages, 1):
        if is_rubbish(text):
            continue
        lines = joined_lines(text).split("\n")
        edge = {*range(EDGE), *range(len(lines) - EDGE, len(lines))}
        new = [
            line
            for place, line in enumerate(lines)
            if place not in edge or not any(repeats(before, page, line, number) for page, before in known)
        ]
        known += [(number, line) for place, line in enumerate(lines) if place in edge and line.strip()]
        kept.append("\n".join(new))
    return kept


def found(words: Sequence[Word], read: Read | None) -> int:
    """How many of the words are in the Markdown and in the chunks."""
    if read is None:
        return 0
    ways = (read.plain_markdown, read.chunked)
    missing = {place for text in ways for place in compare(words, words_of(text)).missing}
    return len(words) - len(missing)


def scores(asked: dict[str, list[Word]], read: dict[str, Read]) -> Result:
    """Over all words, and by file."""
    with_words = {name: words for name, words in asked.items() if words}
    counts = {name: found(words, read.get(name)) for name, words in with_words.items()}
    shares = {name: counts[name] / len(words) for name, words in with_words.items()}
    below = {name: share for name, share in sorted(shares.items(), key=lambda item: item[1]) if share < ENOUGH}
    return {
        "coverage": {
            "words": sum(counts.values()) / sum(map(len, with_words.values())),
            "files_below_97": len(below),
            "files": len(with_words),
            "below": below,
        }
    }
