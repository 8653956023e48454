"""The segmenter: how well texts are cut, how fast, whether their languages are told, and how callbacks are delivered.

    python -m benchmarks.segmenter --data FOLDER [--choi FOLDER] [--json] [--quick] [--only MEASURE ...]

`mdn` cuts pages of documentation whose headings were taken away, and the same pages with them. It reports on the half
of the pages that no weight was fitted to. `choi` cuts texts in Choi's form: sentences of several texts one after the
other.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Final

from benchmarks import webhooks
from benchmarks.databases import Server
from benchmarks.documents import languages
from benchmarks.documents.data import Data
from benchmarks.measuring import Measure, run_benchmark
from benchmarks.report import Line, Options, Result, Target, parse_options, show
from benchmarks.segmentation.scores import Pair, all_scores, gaps, pk
from benchmarks.segmentation.texts import PAGES, Page, choi_sets, held_out, pages, passages_of
from soliplex.ingester.lib.embedding import local
from soliplex.ingester.lib.embedding.wordllama import embed_here
from soliplex.ingester.segmenter import Sizes, cut_into_articles
from soliplex.ingester.segmenter.cues import Passage
from soliplex.ingester.segmenter.markdown_blocks import BlockKind
from soliplex.ingester.segmenter.topics import topic_cuts

LINES: Final = (
    Line("WindowDiff on pages without headings", "mdn.without_headings.windowdiff", Target(0.33, at_most=True)),
    Line("… boundary F1", "mdn.without_headings.boundary_f1", Target(0.45)),
    Line("… Pk", "mdn.without_headings.pk"),
    Line("… WindowDiff of making no cut", "mdn.no_cuts.windowdiff"),
    Line("WindowDiff on pages with headings", "mdn.with_headings.windowdiff", Target(0, at_most=True)),
    Line("… boundary F1", "mdn.with_headings.boundary_f1", Target(1)),
    *languages.LINES,
    Line("texts that their articles give back, share", "reconstructed", Target(1)),
    Line("pages a second, a book of {book_pages} pages without headings", "pages_per_second", Target(100)),
    Line("… with headings", "pages_per_second_with_headings"),
    Line("callbacks delivered a second", webhooks.RATE, Target(500)),
)
ONE_ARTICLE_A_SECTION: Final = Sizes(target=10**9, maxsize=10**9, merges_small=False)
_SIZES: Final = (Sizes.named("small"), Sizes.named("medium"), Sizes.named("xlarge", 9000), Sizes(20, 60))
_CHARACTERS_OF_A_PAGE: Final = 3000
_PARAGRAPHS_OF_A_SECTION: Final = 8


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much is measured."""

    book_pages: int = 500
    """Of the book that is cut for `pages_per_second`."""
    texts: int = 1_000_000
    """At most, of each kind."""


QUICK: Final = Amounts(book_pages=100, texts=100)


async def mdn(data: Data, _server: Server, amounts: Amounts) -> Result:
    texts = held_out(pages(data.path(*PAGES)))[: amounts.texts]
    truths = [gaps(page.starts, len(page.paragraphs)) for page in texts]
    ways = {
        "without_headings": [topic_cuts(passages_of(page), embed_here) for page in texts],
        "without_headings_or_embedder": [topic_cuts(passages_of(page)) for page in texts],
        "with_headings": [starts_by_headings(page) for page in texts],
        "no_cuts": [list[int]() for _ in texts],
    }
    return {"mdn": {name: _scored(truths, found) for name, found in ways.items()}}


def _scored(truths: Sequence[Sequence[bool]], found: Sequence[Sequence[int]]) -> dict[str, float]:
    pairs = [Pair(truth, gaps(starts, len(truth) + 1)) for truth, starts in zip(truths, found, strict=True)]
    return all_scores(pairs)


def starts_by_headings(page: Page) -> list[int]:
    """The paragraphs with which articles begin, of the page as Markdown with its headings."""
    markdown, begins = _with_headings(page)
    articles = cut_into_articles(markdown, ONE_ARTICLE_A_SECTION, embed=embed_here)
    edges = [0, *accumulate(len(article.body) for article in articles)]
    return [begins[edge] for edge in edges[:-1] if edge in begins]


def _with_headings(page: Page) -> tuple[str, dict[int, int]]:
    """The page as Markdown, and which paragraph is the first after each place where a section may begin."""
    markdown, begins, count = f"# {page.title}\n\n", {0: 0}, 0
    for section in page.sections:
        begins[len(markdown) if section.title else 0] = count
        markdown += f"## {section.title}\n\n" if section.title else ""
        for text in section.paragraphs:
            begins.setdefault(len(markdown), count)
            markdown += f"{text}\n\n"
            count += 1
    return markdown, begins


async def choi(folder: Path, _server: Server, amounts: Amounts) -> Result:
    scores = dict[str, float]()
    for name, texts in choi_sets(folder).items():
        found = [
            pk(gaps(text.starts, len(text.sentences)), gaps(_topics(text.sentences), len(text.sentences)))
            for text in texts[: amounts.texts]
        ]
        scores[name] = round(sum(found) / len(found), 4)
    if not scores:
        raise ValueError(f"{folder} holds no files in Choi's form")
    return {"choi": scores}


def _topics(sentences: Sequence[str]) -> list[int]:
    passages = [Passage(text, BlockKind.PARAGRAPH, goes_on_inside=number > 0) for number, text in enumerate(sentences)]
    return topic_cuts(passages, embed_here, local.embed_here)


async def language_accuracy(data: Data, _server: Server, _amounts: Amounts) -> Result:
    return languages.measure(data)


async def reconstruction_exact(data: Data, _server: Server, amounts: Amounts) -> Result:
    texts = [_with_headings(page)[0] for page in pages(data.path(*PAGES))[: amounts.texts]]
    for folder in ("documents", "pdf_truth"):
        texts += [path.read_bytes().decode("utf-8", "replace") for path in data.files(folder) if path.suffix == ".md"]
    exact = [
        "".join(article.body for article in cut_into_articles(text, sizes)) == text
        for text in texts
        for sizes in _SIZES
    ]
    return {"reconstruction_exact": all(exact), "reconstructed": sum(exact) / len(exact), "reconstructions": len(exact)}


async def pages_per_second(data: Data, _server: Server, amounts: Amounts) -> Result:
    paragraphs = [text for page in pages(data.path(*PAGES)) for text in page.paragraphs]
    embed_here(paragraphs[:1])  # loads the model
    book, sections = _book(paragraphs, amounts.book_pages)
    return {
        "pages_per_second": _rate(book, amounts.book_pages),
        "pages_per_second_with_headings": _rate(sections, amounts.book_pages),
    }


def _book(paragraphs: Sequence[str], count: int) -> tuple[str, str]:
    """A book of so many pages, without headings and with one every few paragraphs."""
    plain, headed, length = list[str](), list[str](), 0
    for number in range(1_000_000):
        if length >= count * _CHARACTERS_OF_A_PAGE:
            break
        text = paragraphs[number % len(paragraphs)]
        headed += [f"## Section {number}"] if number % _PARAGRAPHS_OF_A_SECTION == 0 else []
        plain.append(text)
        headed.append(text)
        length += len(text) + 2
    return "\n\n".join(plain), "\n\n".join(headed)


def _rate(book: str, count: int) -> float:
    began = time.perf_counter()
    cut_into_articles(book, Sizes.named("medium"), embed=embed_here)
    return round(count / (time.perf_counter() - began), 1)


async def deliveries(server: Server, amounts: Amounts) -> Result:
    """What `benchmarks.webhooks` measures, whose messages are the callbacks of jobs."""
    return await webhooks.measure(server, webhooks.QUICK if amounts is QUICK else webhooks.FULL)


MEASURES: Final = ("mdn", "choi", "language_accuracy", "reconstruction_exact", "pages_per_second", webhooks.RATE)


def measure(options: Options) -> Result:
    data = Data(options.data)
    measures: dict[str, Measure[Amounts]] = {
        "mdn": partial(mdn, data),
        "language_accuracy": partial(language_accuracy, data),
        "reconstruction_exact": partial(reconstruction_exact, data),
        "pages_per_second": partial(pages_per_second, data),
        webhooks.RATE: deliveries,
    }
    if options.choi is not None:
        measures["choi"] = partial(choi, options.choi)
    if missing := set(options.only) - set(measures):
        raise SystemExit(f"{', '.join(missing)} needs --choi FOLDER")
    return run_benchmark("segmenter", options, QUICK if options.quick else Amounts(), measures)


def main() -> int:
    options = parse_options(__doc__ or "", MEASURES)
    result = measure(options)
    show(result, LINES, as_json=options.as_json)
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
