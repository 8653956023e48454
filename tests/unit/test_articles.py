"""Documents are cut into articles: nothing lost, nothing twice, and never inside what belongs together."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.segmenter import Article, Sizes, cut_into_articles, warnings_about

AS_STRUCTURED = Sizes(target=10**9, maxsize=10**9, merges_small=False)

_PIECES = st.sampled_from(
    [
        "# One\n",
        "## Two ##\n\n",
        "Setext\n======\n",
        "Under\n---\n",
        "---\n",
        "---\ntitle: x\n---\n",
        "```python\n# no heading\n\nx = 1\n```\n",
        "~~~\n",
        "```",
        "    code by indent\n",
        "<div>\n# no heading\n</div>\n",
        "<!-- open\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "- item\n  - nested\n\n    still nested\n",
        "1. first\n2. second\n",
        "> quoted\n>\n> - list\n",
        "[ref]: http://example.org\n",
        "A sentence. Another one! 日本語の文。次の文。 e.g. this\n",
        "line with break  \nnext\\\nline\n",
        "\r\n",
        "\n\n",
        "\r",
        "\x0b\x0c\x85\u2028",
        "\x00\ufeff",
        "#\n",
        "word " * 30,
        "\t",
    ]
)
nasty_markdown = st.one_of(st.lists(st.one_of(_PIECES, st.text(max_size=20)), max_size=25).map("".join), st.text())
some_sizes = st.tuples(st.integers(1, 300), st.integers(0, 500), st.booleans()).map(
    lambda drawn: Sizes(drawn[0], drawn[0] + drawn[1], merges_small=drawn[2])
)


@settings(max_examples=300, deadline=None)
@given(nasty_markdown, some_sizes)
def test_bodies_one_after_the_other_are_the_document(markdown: str, sizes: Sizes) -> None:
    articles = cut_into_articles(markdown, sizes)

    assert "".join(article.body for article in articles) == (markdown if markdown.strip() else "")
    assert [article.ordinal for article in articles] == list(range(len(articles)))
    assert all(article.body.strip() for article in articles)


def cut(markdown: str, sizes: Sizes = AS_STRUCTURED) -> list[Article]:
    return cut_into_articles(markdown, sizes)


def test_articles_follow_headings() -> None:
    found = cut("Before.\n\n# Book\n\nIntro.\n\n## First\n\nText.\n\nSecond\n------\n\nMore.\n")

    assert [(article.title, article.group) for article in found] == [
        ("Before", ""),
        ("Book", "Book"),
        ("First", "Book > First"),
        ("Second", "Book > Second"),
    ]


def test_what_only_looks_like_a_heading_does_not_begin_an_article() -> None:
    assert len(cut("# One\n\n```\n# two\n```\n\n    # three\n\n<pre>\n# four\n</pre>\n\n- # five\n")) == 1


def test_sizes_that_no_article_can_have_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="maxsize"):
        Sizes.named("small", 0)
    with pytest.raises(InvalidInputError, match=r"article_size.*huge.*small, medium, large, xlarge"):
        Sizes.named("huge")


def test_a_sentence_longer_than_maxsize_stays_whole_and_is_told_of() -> None:
    sizes = Sizes(target=100, maxsize=200)
    articles = cut("Short one. " + "word " * 5000 + "end. Short again.", sizes)

    assert [article.size > 200 for article in articles].count(True) == 1
    (warning,) = warnings_about(articles, sizes)
    assert "more than maxsize 200" in warning
