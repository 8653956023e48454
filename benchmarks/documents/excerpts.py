"""How much of a known excerpt the passages hold that its question finds, and how little else: recall and IoU.

As Chroma's evaluation of chunking has it: all passages of all documents in one collection, the five nearest to the
question by their vectors alone; recall is the share of the excerpt in them, IoU the same by all that they and the
excerpt hold. The questions are claims of SciFact, the excerpts are the sentences that speak for or against them, as its
authors marked them. Abstracts are too short to be cut, so twenty at a time make a document: with their titles as
headings, and without them, as a text whose topic changes without notice.

Beside our chunks stand two published rules, written anew: texts cut recursively at paragraphs, lines, sentences and
words (LangChain's `RecursiveCharacterTextSplitter`), and single sentences that are given back with their neighbours
(LlamaIndex's sentence windows). Only documents are used that nothing was tuned on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import md5
from itertools import batched
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from benchmarks.documents.data import Abstract, Data
from benchmarks.report import Line, Result
from soliplex.ingester.lib.chunking import ChunkOptions, chunk, embedding_text
from soliplex.ingester.lib.chunking.tokens import weigh
from soliplex.ingester.lib.embedding import Embedder, EmbedOptions, open_embedder

FOUND: Final = 5
ABSTRACTS: Final = 20
"""In a document."""
SENTENCES: Final = 3
"""In a paragraph of a document without titles."""
SIZE: Final = ChunkOptions().chunk_size
BESIDE: Final = 2
"""Sentences on either side that a window adds."""
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9(\[\"])")
_ANY_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_SEPARATORS: Final = ("\n\n", "\n", ".", "?", "!", " ")
_NAMES: Final = {
    "titled.ours": "excerpts of documents with headings in five passages that are found",
    "titled.recursive": "… cut recursively",
    "titled.windows": "… sentences with their neighbours",
    "bare.ours": "excerpts of documents without headings",
    "bare.recursive": "… cut recursively",
    "bare.windows": "… sentences with their neighbours",
}
LINES: Final = tuple(
    Line(f"{name}, {what}", f"chunks.{path}.{score}")
    for path, name in _NAMES.items()
    for score, what in (("recall", "recall"), ("iou", "IoU in %"))
)


class Passage(NamedTuple):
    """What is embedded, and what is given back when it is found."""

    embedded: str
    content: str


class Span(NamedTuple):
    """A stretch of a document, counted in letters without white space, which chunkers change."""

    document: int
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


class Question(NamedTuple):
    text: str
    excerpts: Sequence[Span]


type Chunker = Callable[[str], list[Passage]]


async def measure(data: Data, abstracts: int) -> Result:
    """Recall and IoU of each chunker, on documents with titles and without."""
    chosen = _chosen(data, abstracts)
    async with open_embedder(EmbedOptions()) as embedder:
        return {
            "chunks": {
                layout: {
                    name: await _scores(*_documents(data, chosen, titled=layout == "titled"), chunker, embedder)
                    for name, chunker in CHUNKERS.items()
                }
                for layout in ("titled", "bare")
            }
        }


def _chosen(data: Data, abstracts: int) -> list[Abstract]:
    """Abstracts of the half that nothing is tuned on, those with marked sentences first, then in an order of chance."""
    marked = {document for _, sentences in data.rationales() for document in sentences}
    held = [each for each in data.abstracts() if _by_chance(each.id) % 2]
    first = sorted(held, key=lambda each: (each.id not in marked, _by_chance(each.id)))[:abstracts]
    return sorted(first, key=lambda each: _by_chance(each.title))


def _by_chance(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[::-1])


def _documents(data: Data, abstracts: Sequence[Abstract], *, titled: bool) -> tuple[list[str], list[Question]]:
    """The documents, and the questions whose excerpts are all in them."""
    texts, places = list[str](), dict[str, list[Span]]()
    for number, some in enumerate(batched(abstracts, ABSTRACTS)):
        text = ""
        for each in some:
            text += f"## {each.title}\n\n" if titled else ""
            sentences = _SENTENCE_END.split(each.text)
            lengths = [len(_letters(sentence)) for sentence in sentences]
            start = len(_letters(text))
            places[each.id] = [
                Span(number, start + sum(lengths[:place]), start + sum(lengths[: place + 1]))
                for place in range(len(sentences))
            ]
            paragraphs = [each.text] if titled else map(" ".join, batched(sentences, SENTENCES))
            text += "".join(f"{paragraph}\n\n" for paragraph in paragraphs)
        texts.append(text)
    questions = [
        Question(text, [places[document][number] for document, numbers in marked.items() for number in numbers])
        for text, marked in data.rationales()
        if all(max(numbers) < len(places.get(document, ())) for document, numbers in marked.items())
    ]
    return texts, questions


def _letters(text: str) -> str:
    return "".join(text.split())


async def _scores(
    texts: Sequence[str], questions: Sequence[Question], chunker: Chunker, embedder: Embedder
) -> Mapping[str, float]:
    passages = [
        (passage.embedded, span)
        for number, text in enumerate(texts)
        for passage, span in _placed(number, text, chunker)
    ]
    vectors = np.array(await embedder.embed([embedded for embedded, _ in passages]))
    asked = np.array(await embedder.embed([question.text for question in questions]))
    recalls, ious = list[float](), list[float]()
    for question, likeness in zip(questions, asked @ vectors.T, strict=True):
        found = [passages[place][1] for place in np.argsort(-likeness)[:FOUND]]
        held = sum(covered(excerpt, found) for excerpt in question.excerpts)
        wanted = sum(excerpt.length for excerpt in question.excerpts)
        recalls.append(held / wanted)
        ious.append(held / (sum(span.length for span in found) + wanted - held))
    return {
        "recall": round(fmean(recalls), 4),
        "iou": round(100 * fmean(ious), 2),
        "passages": len(passages),
        "questions": len(questions),
    }


def _placed(number: int, text: str, chunker: Chunker) -> Iterator[tuple[Passage, Span]]:
    letters, at = _letters(text), 0
    for passage in chunker(text):
        content = _letters(passage.content)
        at = letters.index(content, at)
        yield passage, Span(number, at, at + len(content))


def covered(excerpt: Span, found: Sequence[Span]) -> int:
    """How many letters of the excerpt are in one of the spans."""
    covered, done = 0, excerpt.start
    for span in sorted(span for span in found if span.document == excerpt.document):
        start, end = max(span.start, done), min(span.end, excerpt.end)
        if end > start:
            covered += end - start
            done = end
    return covered


def ours(text: str) -> list[Passage]:
    return [Passage(embedding_text(each), each.content) for each in chunk(None, text)]


def recursive(text: str) -> list[Passage]:
    """Cut at the first of the separators that the text has, what is still too long at the next, and so on."""
    return [Passage(piece.strip(), piece.strip()) for piece in _cut(text, _SEPARATORS) if piece.strip()]


def _cut(text: str, separators: Sequence[str]) -> Iterator[str]:
    separator, *others = next((separators[at:] for at, each in enumerate(separators) if each in text), (None,))
    if separator is None:
        yield text
        return
    parts = re.split(f"(?={re.escape(separator)})", text)
    piece, weight = "", 0
    for part, own in zip(parts, weigh(parts), strict=True):
        if weight + own > SIZE or own >= SIZE:
            yield piece
            piece, weight = "", 0
        if own >= SIZE:
            yield from _cut(part, others)
        else:
            piece, weight = piece + part, weight + own
    yield piece


def windows(text: str) -> list[Passage]:
    """Each sentence, with its neighbours to be given back."""
    sentences = [sentence for sentence in _ANY_SENTENCE_END.split(text) if sentence.strip()]
    return [
        Passage(sentence, " ".join(sentences[max(0, place - BESIDE) : place + BESIDE + 1]))
        for place, sentence in enumerate(sentences)
    ]


CHUNKERS: Final[Mapping[str, Chunker]] = {"ours": ours, "recursive": recursive, "windows": windows}
