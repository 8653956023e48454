"""Documents are cut into articles: nothing lost, nothing twice, and never inside what belongs together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.segmenter import Article, PageMark, Sizes, cut_into_articles, page_marks, warning_about
from soliplex.ingester.segmenter.markdown_blocks import BlockKind, blocks_of
from soliplex.ingester.segmenter.sentences import sentence_ends
from soliplex.ingester.segmenter.sizes import size_of
from soliplex.ingester.segmenter.titles import made_of_text
from soliplex.ingester.segmenter.units import units_of

AS_STRUCTURED = Sizes(target=10**9, maxsize=10**9, merges_small=False)

PIECES = [
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
nasty_markdown = st.one_of(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=25).map("".join), st.text()
)
some_sizes = st.tuples(st.integers(1, 300), st.integers(0, 500), st.booleans()).map(
    lambda drawn: Sizes(drawn[0], drawn[0] + drawn[1], merges_small=drawn[2])
)


@settings(max_examples=300, deadline=None)
@given(nasty_markdown, some_sizes)
def test_bodies_one_after_the_other_are_the_document(markdown: str, sizes: Sizes) -> None:
    articles = cut_into_articles(markdown, sizes)

    assert "".join(article.body for article in articles) == (markdown if markdown.strip() else "")
    assert [article.ordinal for article in articles] == list(range(len(articles)))
    assert all(article.body for article in articles)
    assert all(len(article.title) <= 100 for article in articles)


WHOLE = [
    "| name | value |\n|---|---|\n| {n} | one |\n| two | three |",
    "```\ncode {n}. Not the end. # no heading\n\nmore code\n```",
    "- item {n}. It goes on.\n  - nested one\n  - nested two",
    "This is sentence {n} of a paragraph that has no other one.",
    "<div>\nmarkup {n}. More.\n</div>",
]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*WHOLE, "## Heading {n}"]), min_size=1, max_size=25), some_sizes)
def test_nothing_is_cut_inside_what_belongs_together(kinds: list[str], sizes: Sizes) -> None:
    parts = [kind.format(n=f"{number:03}") for number, kind in enumerate(kinds)]
    articles = cut_into_articles("\n\n".join(parts), sizes)

    for part in parts:
        assert sum(part in article.body for article in articles) == 1


@settings(max_examples=100, deadline=None)
@given(nasty_markdown, some_sizes)
def test_an_article_is_longer_than_maxsize_only_where_nothing_in_it_may_be_cut(markdown: str, sizes: Sizes) -> None:
    starts = {unit.start for unit in units_of(markdown, sizes)}
    place = 0
    for article in cut_into_articles(markdown, sizes):
        inside = [start for start in starts if place <= start < place + len(article.body)]
        place += len(article.body)
        assert article.size <= sizes.maxsize or len(inside) == 1


def cut(markdown: str, sizes: Sizes = AS_STRUCTURED) -> list[Article]:
    return cut_into_articles(markdown, sizes)


def test_titles_and_groups_keep_what_is_code() -> None:
    (found,) = cut("# The `<summary>` element\n\n## `npm install [<@scope>/]<name>`\n\nText.\n")
    assert (found.title, found.group) == ("The <summary> element", "The <summary> element")


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


def test_a_heading_is_never_left_behind_at_the_end_of_an_article() -> None:
    found = cut("# A\n\nText.\n\n## Part\n\n## Its section\n\nMore.\n\n### Empty\n\n# B\n\nEnd.\n")

    assert [article.title for article in found] == ["A", "Part", "Empty", "B"]
    assert found[1].body.startswith("## Part\n\n## Its section\n\nMore.")


def test_facts_about_the_document_go_with_what_comes_first() -> None:
    (first, _) = cut("---\ntitle: x\n---\n\n# One\n\nText.\n\n# Two\n\nText.\n")
    assert (first.title, first.body[:10]) == ("One", "---\ntitle:")


def sentences(count: int) -> str:
    return " ".join(f"Sentence {number} of this section says something." for number in range(count))


def test_small_sections_are_put_together_below_one_heading() -> None:
    markdown = f"# Book\n\n## A\n\nTiny.\n\n## B\n\n{sentences(8)}\n\n# Other\n\n{sentences(20)}\n\n## C\n\nTiny.\n"
    found = cut(markdown, Sizes.named("small"))

    assert [(article.title, article.group) for article in found] == [("Book", "Book"), ("Other", "Other")]


def test_sections_of_about_the_right_length_stay_as_they_are() -> None:
    markdown = "".join(f"## S{number}\n\n{sentences(15 + number)}\n\n" for number in range(6))
    assert [article.title for article in cut(markdown, Sizes.named("small"))] == [f"S{number}" for number in range(6)]


def test_long_sections_are_cut_between_paragraphs_before_sentences() -> None:
    markdown = "# Long\n\n" + "\n\n".join(sentences(8) for _ in range(10)) + "\n"
    found = cut(markdown, Sizes.named("small"))

    assert len(found) > 2
    assert all(article.body.endswith(("something.\n\n", "something.\n")) for article in found)
    assert {article.group for article in found} == {"Long"}


def test_a_list_stays_with_the_words_that_announce_it() -> None:
    markdown = "\n\n".join([sentences(15), "These things are meant:", "- one thing\n- another", sentences(14)])
    found = cut(markdown, Sizes.named("small"))

    assert len(found) == 2
    assert not any(article.body.rstrip().endswith(":") for article in found)


def test_a_sentence_longer_than_maxsize_stays_whole_and_is_told_of() -> None:
    sizes = Sizes(target=100, maxsize=200)
    articles = cut("Short one. " + "word " * 5000 + "end. Short again.", sizes)

    assert [article.size > 200 for article in articles].count(True) == 1
    (long,) = [article for article in articles if article.size > 200]
    warning = warning_about(articles, sizes)
    assert warning is not None
    assert f"longer than maxsize 200: article {long.ordinal} (" in warning
    assert warning_about(cut("Short.", sizes), sizes) is None


def test_a_warning_stays_short_however_many_articles_are_too_long() -> None:
    sizes = Sizes(target=10, maxsize=10)
    warning = warning_about(cut("\n\n".join(["aVeryLongWordThatIsNeverCut"] * 1000), sizes), sizes)
    assert warning is not None
    assert "995 more" in warning
    assert len(warning) < 1500


def topics_by_first_word(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.array([[text.startswith("Bees"), text.startswith("Trains")] for text in texts], dtype=np.float32)


def test_without_headings_articles_begin_where_the_topic_changes() -> None:
    bees = [f"Bees do {number} things in the hive, and each of them has its own time and place." for number in range(9)]
    trains = [f"Trains take {number} hours on rails, whatever the weather is on that very day." for number in range(7)]
    markdown = "\n\n".join([*bees, *trains])

    found = cut_into_articles(markdown, Sizes(target=600, maxsize=2000), embed=topics_by_first_word)

    assert [article.body.count("Bees") for article in found] == [9, 0]
    assert found[1].title == "Trains take 0 hours on rails, whatever the weather is …"


def test_sizes_that_no_article_can_have_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="maxsize"):
        Sizes.named("small", 0)
    with pytest.raises(InvalidInputError, match=r"article_size.*huge.*small, medium, large, xlarge"):
        Sizes.named("huge")
    assert Sizes.named("xlarge", 5000).target == 5000


def test_white_space_has_no_size_and_makes_no_article() -> None:
    assert size_of(" a b\n\tc\u3000") == 3
    assert cut(" \n\t\r\n") == []


def test_an_article_has_the_page_that_its_first_words_are_on() -> None:
    def text(number: int, page: int, words: str, label: str = "text") -> dict[str, object]:
        return {"self_ref": f"#/texts/{number}", "label": label, "text": words, "prov": [{"page_no": page}]}

    texts = [
        text(0, 1, "Title_one", "title"),
        text(1, 1, "Words of page one."),
        text(2, 2, "Head", "section_header"),
        text(3, 2, "page footer", "page_footer") | {"content_layer": "furniture"},
        text(4, 3, "Words of page <three>."),
    ]
    document = {"texts": texts, "body": {"children": [{"$ref": f"#/texts/{number}"} for number in range(5)]}}
    markdown = "# Title\\_one\n\nWords of page one.\n\n## Head\n\nWords of page &lt;three&gt;.\n"

    marks = page_marks(markdown, document)
    found = cut_into_articles(markdown, AS_STRUCTURED, pages=marks)

    assert [mark.page for mark in marks] == [1, 2]
    assert [article.page for article in found] == [1, 2]
    assert page_marks(markdown, {}) == []
    assert cut_into_articles("Text.", AS_STRUCTURED, pages=[PageMark(3, 7)])[0].page == 7
    assert cut("Text.")[0].page is None


def test_a_heading_that_begins_very_many_links_is_cut() -> None:
    (block,) = blocks_of("# " + "[" * 200_000)
    assert block.kind is BlockKind.HEADING
    assert len(block.heading) == 2_000


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two! Three? Four", 4),
        ("See e.g. this. Fig. 3 shows it. Dr. Smith came. The U.S. law", 4),
        ("1. First thing. 2. Second.", 2),
        ("Contents . . . . . . 3", 1),
        ("日本語の文。次の文。", 2),
        ("A line  \nand the next", 2),
        ("A line\nand the next", 1),
        ("Version 2.5 is out. it goes on", 1),
        ("A row of dots" + "." * 300_000 + "and no end", 1),  # minutes, if each dot were looked at as a beginning
    ],
    ids=lambda value: str(value)[:40],
)
def test_sentences_end_where_readers_say(text: str, count: int) -> None:
    assert len([*sentence_ends(text)]) + 1 == count


@pytest.mark.parametrize(
    ("body", "title"),
    [
        ("Short and good. More.", "Short and good"),
        ("| Name | Age |\n|---|---|\n| Ann | 7 |", "Name Age"),
        ("12\n\n> A *quoted* `word` &amp; more\n", "A quoted word & more"),
        ("1. Do this first\n", "Do this first"),
        ("Figure 2. Bees at work. More.", "Figure 2. Bees at work"),
        ("Version 2.5 is out. More.", "Version 2.5 is out"),
        ("Use `<br>` or ``a ` &lt;`` and <b>more</b> &lt;.", "Use <br> or a ` &lt; and more <"),
        ("$$\n\n---\n", ""),
    ],
)
def test_titles_are_made_of_the_text(body: str, title: str) -> None:
    assert made_of_text(body) == title


@pytest.mark.parametrize(
    "marks",
    ["- " * 12 + "x", "- " * 30 + ", and", ">" * 40 + " x", "1. " * 25 + "x", "> - " * 15 + "x", "- " * 5000 + "x"],
    ids=lambda marks: marks[:6],
)
def test_text_after_many_marks_of_lists_in_a_row_is_cut_as_any_other(marks: str) -> None:
    *_, first, second = blocks_of(f"{marks}\n\nThe bees swarm.\n\nThe train left.\n")
    assert (first.kind, second.kind) == (BlockKind.PARAGRAPH, BlockKind.PARAGRAPH)


def test_text_after_a_deeply_nested_list_is_cut_as_any_other() -> None:
    nested = "\n".join(f"{'  ' * depth}- x" for depth in range(14))
    assert [block.kind for block in blocks_of(f"{nested}\n\nThe bees swarm.\n\nThe train left.\n")] == [
        BlockKind.LIST_ITEM,
        BlockKind.PARAGRAPH,
        BlockKind.PARAGRAPH,
    ]
