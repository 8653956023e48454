"""Articles: a document's text, cut into whole and readable parts.

The bodies, one after the other, are the document's text: nothing is lost, and nothing is there twice. Where headings
tell how the text is divided, articles follow them. Sections that are much shorter than the target are put together,
those that are longer are cut where the topic changes, or else between blocks, or else between sentences of a long
paragraph. A table, a list item, a code block and a sentence are never cut: where one is longer than maxsize, so is
its article.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from soliplex.ingester.segmenter.article_cuts import chosen_starts
from soliplex.ingester.segmenter.page_numbers import PageMark, page_at
from soliplex.ingester.segmenter.sizes import Sizes, size_of
from soliplex.ingester.segmenter.titles import group_of, title_of
from soliplex.ingester.segmenter.topics import Embed, topic_starts
from soliplex.ingester.segmenter.units import Unit, units_of

_NAMED: Final = 5
"""Articles that a warning names: of a long document they may be thousands."""


@dataclass(frozen=True, slots=True)
class Article:
    """A part of a document that can be read by itself."""

    ordinal: int
    """Its place among the document's articles, from 0."""
    title: str
    group: str
    """The headings that all of it stands below, joined by ` > `; empty where there are none."""
    page: int | None
    """The page that it begins on; None where the document has no pages."""
    body: str
    """Markdown, as it stands in the document, white space at its end included."""

    @property
    def size(self) -> int:
        """Characters that are not white space."""
        return size_of(self.body)


def cut_into_articles(
    markdown: str,
    sizes: Sizes,
    *,
    pages: Sequence[PageMark] = (),
    embed: Embed | None = None,
    embed_sentences: Embed | None = None,
) -> list[Article]:
    """The articles of a document in its order; none where it holds no text.

    Without `embed`, where the topic changes is told by the words alone. `embed_sentences` may be slower and should be
    better: it is used where a text has no paragraphs.
    """
    units = units_of(markdown, sizes)
    if not units:
        return []
    topics = topic_starts(markdown, units, sizes, embed, embed_sentences)
    edges = [*chosen_starts(units, topics, sizes), len(units)]
    return [
        _article(markdown, number, units[first:last], pages) for number, (first, last) in enumerate(pairwise(edges))
    ]


def warning_about(articles: Sequence[Article], sizes: Sizes) -> str | None:
    """What a reader should know: which articles are longer than was asked for, since nothing in them may be cut."""
    longer = [article for article in articles if article.size > sizes.maxsize]
    if not longer:
        return None
    named = [f"{each.ordinal} ({each.title!r}, {each.size} characters)" for each in longer[:_NAMED]]
    more = [f"{len(longer) - _NAMED} more"] if len(longer) > _NAMED else []
    return (
        f"longer than maxsize {sizes.maxsize}: article {', '.join([*named, *more])}; "
        "each is a single table, list item, code block or sentence"
    )


def _article(markdown: str, ordinal: int, units: Sequence[Unit], pages: Sequence[PageMark]) -> Article:
    body = markdown[units[0].start : units[-1].end]
    # Pages begin with a letter, and a heading with the marks before it.
    first_letter = next((place for place, letter in enumerate(body) if letter.isalnum()), 0)
    page = page_at(pages, units[0].start + first_letter)
    return Article(ordinal, title_of(units, body), group_of(units), page, body)
