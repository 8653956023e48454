"""The scores that the benchmark of the pipeline gives."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.documents.covering import Read, found, scores, without_repeats
from benchmarks.documents.excerpts import SIZE, Span, covered, recursive, windows
from benchmarks.documents.processing import Processed, StepRecord
from benchmarks.documents.reading import f1, headings, structure, words
from benchmarks.documents.retrieval import ndcg
from soliplex.ingester.lib.chunking import chunk
from soliplex.ingester.lib.chunking.tokens import weigh
from soliplex.ingester.lib.models import RunStatus
from soliplex.ingester.lib.parsing.words import words_of

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def step(name: str, start: float, end: float, **values: str) -> StepRecord:
    return StepRecord(
        uri="/a.md",
        doc_hash="sha256-0",
        config_id=1,
        name=name,
        status=RunStatus.COMPLETED,
        message=values.get("message"),
        error_type=values.get("error_type"),
        output={},
        started_at=NOON + timedelta(seconds=start),
        ended_at=NOON + timedelta(seconds=end),
    )


def test_the_best_order_scores_one_and_an_answer_further_down_less() -> None:
    assert ndcg(["right", "wrong"], {"right": 1}) == 1
    assert ndcg(["wrong", "right"], {"right": 1}) == pytest.approx(0.6309, abs=1e-4)
    assert ndcg(["wrong"] * 10 + ["right"], {"right": 1}) == 0


def test_words_count_as_often_as_they_stand_there() -> None:
    assert f1(words("the cat, the hat"), words("The cat")) == pytest.approx(2 * 2 / 6)
    assert f1(Counter(), Counter()) is None
    assert f1(words("# A | b<!-- image -->"), words("a b")) == 1


def test_headings_are_lines_of_markdown_whatever_their_level() -> None:
    assert headings("# One\n\ntext # no\n\n### **Two**  words\n") == Counter({"one": 1, "two words": 1})


def test_a_stage_is_at_work_while_any_of_its_steps_runs() -> None:
    steps = [step("parse", 0, 2), step("parse", 1, 3), step("parse", 9, 10), step("store", 3, 4)]
    assert Processed(3, 10, 1, steps).stage_rates() == {"parse": 3 / 4, "store": 1}


def test_an_error_that_is_told_by_its_type_is_no_clear_reason() -> None:
    assert step("parse", 0, 1, message="the PDF is cut off", error_type="InvalidDocumentError").has_clear_reason
    assert not step("parse", 0, 1, message="KeyError: 'Pages'", error_type="KeyError").has_clear_reason


def test_a_word_counts_if_it_is_in_the_markdown_and_in_a_chunk() -> None:
    markdown = "# Tides\n\nhigh &amp; low\n\n<!-- image -->\n"
    read = Read(markdown, chunk(None, "# Tides\n\nhigh & low & mean"))
    assert found(words_of("Tides high low"), read) == 3
    assert found(words_of("Tides Tides high low mean image"), read) == 3
    assert found(words_of("Tides high"), None) == 0


def test_the_coverage_names_the_files_that_fall_short() -> None:
    read = {"/a.pdf": Read("one two", chunk(None, "one two"))}
    asked = {"/a.pdf": words_of("one two"), "/b.pdf": words_of("three four"), "/empty.pdf": []}
    assert scores(asked, read)["coverage"] == {"words": 0.5, "files_below_97": 1, "files": 2, "below": {"/b.pdf": 0}}


def test_a_header_that_repeats_is_asked_for_once_and_rubbish_never() -> None:
    pages = ["Annual report\nfirst\n1", "Annual report\nsecond\n2", "\ufffd\ufffd\ufffd"]
    assert [page.split() for page in without_repeats(pages)] == [["Annual", "report", "first", "1"], ["second"]]


def test_a_cell_that_is_torn_in_two_is_no_cell_of_the_source() -> None:
    truth = "| Name | Remark |\n|---|---|\n| A. Finch | on leave until March |\n"
    torn = "| Name | Remark |\n|---|---|\n| A. Finch | on leave |\n| | until March |\n"
    assert structure([truth], [truth])["cells_f1"] == 1.0
    assert structure([torn], [truth])["cells_f1"] == pytest.approx(2 * 3 / (5 + 4))


def test_an_excerpt_is_covered_once_however_many_passages_hold_it() -> None:
    excerpt = Span(1, 100, 200)
    assert covered(excerpt, [Span(1, 150, 300), Span(1, 0, 120), Span(1, 110, 160), Span(2, 100, 200)]) == 100
    assert covered(excerpt, [Span(1, 180, 300), Span(1, 0, 100)]) == 20


def test_texts_are_cut_recursively_into_pieces_of_the_size_that_hold_all_of_them() -> None:
    paragraphs = ["Short.", "A sentence of seven words it is. " * 60, "word " * 400]
    pieces = [passage.content for passage in recursive("\n\n".join(paragraphs))]
    assert max(weigh(pieces)) <= SIZE
    assert "".join("".join(pieces).split()) == "".join("".join(paragraphs).split())


def test_a_sentence_is_given_back_with_its_neighbours() -> None:
    assert [tuple(passage) for passage in windows("One. Two. Three. Four.\n\nFive.")][::2] == [
        ("One.", "One. Two. Three."),
        ("Three.", "One. Two. Three. Four. Five."),
        ("Five.", "Three. Four. Five."),
    ]
