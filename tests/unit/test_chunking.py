"""Markdown is cut at its structure, within the size asked for, loses nothing, and an edit changes few chunks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.lib.chunking import Chunk, ChunkOptions, chunk, embedding_text, packing
from soliplex.ingester.lib.chunking.tokens import weigh
from soliplex.ingester.lib.minilm import FRAME
from soliplex.ingester.lib.step_options import InvalidStepOptionError


def cut(markdown: str, **options: Any) -> list[Chunk]:
    return chunk(None, markdown, ChunkOptions.read(options))


def contents(chunks: Sequence[Chunk]) -> list[str]:
    return [it.content for it in chunks]


def sentences(count: int, about: str = "matter") -> str:
    return " ".join(f"Sentence {number} tells of {about} number {number * 7}." for number in range(count))


def test_a_chunk_bears_the_headings_it_stands_below() -> None:
    chunks = cut("# Manual\n\nIntro.\n\n## Install\n\n### Linux\n\nUse make.\n\n## Use\n\nRun it.")
    found = [(it.metadata.headings, it.content) for it in chunks]
    assert found == [
        (["Manual"], "Intro."),
        (["Manual", "Install", "Linux"], "Use make."),
        (["Manual", "Use"], "Run it."),
    ]
    assert embedding_text(chunks[1]) == "Manual\nInstall\nLinux\nUse make."


def test_paragraphs_of_a_section_share_a_chunk_as_long_as_they_fit() -> None:
    text = "One.\n\nTwo.\n\n- a\n- b\n\n```\ncode\n```"
    assert contents(cut(text)) == ["One.\n\nTwo.\n- a\n- b\n\n```\ncode\n```"]


def test_hierarchical_chunks_are_single_paragraphs_and_whole_lists() -> None:
    assert contents(cut("One.\n\nTwo.\n\n- a\n- b\n\nThree.", chunker_type="hierarchical")) == [
        "One.",
        "Two.",
        "- a\n- b",
        "Three.",
    ]


def test_a_heading_below_which_nothing_stands_is_not_lost() -> None:
    assert contents(cut("# Only a title\n\n## Empty\n\n## Full\n\nText.\n\n## Last")) == ["Empty", "Text.", "Last"]


@pytest.mark.parametrize("text", ["", "   \n\n \t\n", "---\n---\n"])
def test_where_there_is_no_text_there_is_no_chunk(text: str) -> None:
    assert cut(text) == []


def test_headings_are_also_underlined() -> None:
    chunks = cut("Title\n=====\n\nIntro.\n\nPart\n---\n\nText.")
    assert [it.metadata.headings for it in chunks] == [["Title"], ["Title", "Part"]]


def test_what_looks_like_a_heading_in_code_is_code() -> None:
    (only,) = cut("```sh\n# not a heading\n\n# nor this\n```")
    assert (only.metadata.headings, only.content.count("#")) == ([], 2)


def test_front_matter_is_text_and_no_heading() -> None:
    first, second = cut("---\ntitle: Manual\n---\n\n# Manual\n\nText.")
    assert (first.content, first.metadata.headings) == ("title: Manual", [])
    assert second.metadata.headings == ["Manual"]


def test_a_table_that_does_not_fit_is_cut_between_rows_and_repeats_its_header() -> None:
    rows = [f"| item {number} | {number * 11} euro |" for number in range(60)]
    chunks = cut("\n".join(["| thing | price |", "|---|---|", *rows]), chunk_size=100)
    assert len(chunks) > 5
    assert all(it.content.startswith("| thing | price |\n|---|---|\n| item") for it in chunks)
    assert [row for it in chunks for row in it.content.split("\n")[2:]] == rows


def test_a_table_that_fits_is_whole() -> None:
    table = "| a | b |\n|---|---|\n| 1 | 2 |"
    assert contents(cut(f"Before.\n\n{table}\n\nAfter.")) == [f"Before.\n\n{table}\n\nAfter."]


def test_pieces_of_code_are_fenced() -> None:
    code = "\n".join(f"    call({number})" for number in range(80))
    chunks = cut(f"```python\n{code}\n```", chunk_size=64)
    assert len(chunks) > 3
    assert all(it.content.startswith("```python\n") and it.content.endswith("\n```") for it in chunks)
    assert "\n".join(it.content.removeprefix("```python\n").removesuffix("\n```") for it in chunks) == code


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    chunks = cut(sentences(80), chunk_size=64)
    assert len(chunks) > 10
    assert all(it.content.startswith("Sentence") and it.content.endswith(".") for it in chunks)
    assert " ".join(contents(chunks)) == sentences(80)


def test_a_chunk_ends_where_the_topic_changes() -> None:
    bees = [f"Number {number}: bees gather honey, and the hive keeps its honey for winter." for number in range(5)]
    trains = [f"Number {number}: the train leaves its station on rails of steel." for number in range(4)]
    text = "\n\n".join(bees + trains)
    assert sum(weigh([text])) > 110
    assert contents(cut(text, chunk_size=110)) == ["\n\n".join(bees), "\n\n".join(trains)]


def test_a_piece_of_a_paragraph_that_was_cut_shares_no_chunk_with_the_next_paragraph() -> None:
    chunks = contents(cut(f"Before.\n\n{sentences(12)}\n\nAfter.", chunk_size=64))
    assert (chunks[0], chunks[-1]) == ("Before.", "After.")
    assert " ".join(chunks[1:-1]) == sentences(12)


def test_scraps_of_lines_are_put_together_without_comparing_all_of_them() -> None:
    packing._words_in.cache_clear()
    chunks = cut("\n\n".join(f"word{number}" for number in range(9_000)), chunk_size=8192)
    assert len(chunks) > 2
    assert packing._words_in.cache_info().misses == 0


def test_pieces_of_a_paragraph_overlap_as_far_as_asked_for() -> None:
    chunks = cut(sentences(80), chunk_size=64, chunk_overlap=20)
    for one, next_one in pairwise(chunks):
        shared = one.content[one.content.index(next_one.content[:11]) :]
        assert next_one.content.startswith(shared)
        assert 0 < weigh([shared])[0] <= 20


def test_paragraphs_do_not_overlap_since_nothing_was_cut() -> None:
    text = "\n\n".join(f"Paragraph {number}. {sentences(3)}" for number in range(10))
    apart, overlapping = cut(text, chunk_size=64), cut(text, chunk_size=64, chunk_overlap=20)
    assert contents(apart) == contents(overlapping)


def test_a_separator_of_ones_own_cuts_too() -> None:
    assert contents(cut("a\n***\nb\n***\nc", separator="\n***\n", chunker_type="hierarchical")) == ["a", "b", "c"]


def test_text_without_spaces_is_kept_within_its_limit() -> None:
    for text in ("QUJD" * 5000, "\u6f22\u5b57\u3002" * 2000, "\u0e01" * 5000):
        chunks = cut(text, chunk_size=64)
        assert "".join(contents(chunks)) == text
        assert max(len(it.content) for it in chunks) <= 64 * 12


def test_headings_too_long_to_go_with_every_chunk_are_text_of_the_first() -> None:
    title = sentences(5)
    chunks = cut(f"# {title}\n\n## Part\n\nText.\n\n## Other\n\nMore.", chunk_size=64)
    assert [(it.metadata.headings, it.content) for it in chunks] == [
        (["Part"], f"{title}\n\nText."),
        (["Other"], "More."),
    ]


def test_a_passage_has_the_same_id_wherever_it_stands_and_copies_are_numbered() -> None:
    one = cut("# A\n\nSame.\n\n# A\n\nOther.\n\n# A\n\nSame.")
    two = cut("# B\n\nBefore.\n\n# A\n\nSame.")
    assert len({it.id for it in one}) == 3
    assert one[0].id == two[1].id


def test_an_edit_changes_the_chunks_it_touches_and_few_others() -> None:
    paragraphs = [f"Paragraph {number}. {sentences(4, f'subject {number}')}" for number in range(200)]
    before = {it.id for it in cut("\n\n".join(paragraphs))}
    paragraphs.insert(20, "Something new stands here. " + sentences(3, "news"))
    del paragraphs[120]
    after = cut("\n\n".join(paragraphs))
    assert len(after) > 30
    assert sum(it.id not in before for it in after) <= 8


def test_a_change_within_an_endless_paragraph_changes_few_pieces() -> None:
    text = sentences(600)
    before = {it.id for it in cut(text, chunk_overlap=25)}
    after = cut(text.replace("Sentence 50 ", "A new beginning. Sentence 50 "), chunk_overlap=25)
    assert sum(it.id not in before for it in after) <= 4


_lines = st.one_of(
    st.sampled_from(
        ["", "", "# Head", "## Sub *head*", "- item", "  - nested", "1. one", "```", "| a | b |", "|---|---|"]
    ),
    st.sampled_from(["---", "===", "> quoted", "    indented", "<div>", "\\", "word " * 90, "x" * 500]),
    st.text(max_size=60),
)


@given(lines=st.lists(_lines, max_size=40), size=st.integers(16, 300), overlap=st.integers(0, 8))
def test_no_chunk_is_too_large_and_no_word_is_lost(lines: list[str], size: int, overlap: int) -> None:
    markdown = "\n".join(lines)
    chunks = cut(markdown, chunk_size=size, chunk_overlap=overlap)
    texts = list(map(embedding_text, chunks))
    if not re.search(r"\S{41}", markdown):  # parts of a word may weigh more together
        assert all(weight <= size - FRAME for weight in weigh(texts))
    assert len({it.id for it in chunks}) == len(chunks)
    assert all(it.content.strip() for it in chunks)
    for word in ("Head", "Sub", "item", "nested", "quoted", "indented", "<div>"):
        assert any(word in text for text in texts) or word not in markdown
    # In the texts, not the contents: a line above a rule is a heading.
    assert "".join(texts).count("word ") >= markdown.count("word word ")


def test_a_chunk_survives_being_written_down() -> None:
    (only,) = cut("# A\n\nText.")
    assert Chunk.from_json({**only.as_json(), "document_id": "added by others"}) == only


def test_the_parameters_of_the_seed_and_of_the_field_are_understood() -> None:
    seed = ChunkOptions.read({"chunk_size": 512, "chunk_overlap": 50, "separator": "\n\n"})
    field = ChunkOptions.read(
        {"chunker": "docling-local", "chunk_size": 256, "chunker_type": "hybrid", "text_context_radius": 1}
    )
    assert (seed.chunk_size, field.chunker_type) == (512, "hybrid")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"chunk_sise": 100}, "chunk.chunk_sise: there is no such parameter; did you mean 'chunk_size'?"),
        ({"chunk_size": 3}, "chunk.chunk_size: Input should be greater than or equal to 16, not 3"),
        ({"chunk_size": "many"}, "chunk.chunk_size:"),
        ({"chunk_size": 100, "chunk_overlap": 60}, "chunk_overlap of 60 is more than half of chunk_size"),
        ({"chunker_type": "magic"}, "chunk.chunker_type: Input should be 'hybrid' or 'hierarchical', not 'magic'"),
    ],
)
def test_a_wrong_parameter_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidStepOptionError, match=re.escape(words)):
        ChunkOptions.read(given)
