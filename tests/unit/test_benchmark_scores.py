"""The scores that the benchmark of the pipeline gives."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.documents.processing import Processed, StepRecord
from benchmarks.documents.reading import f1, headings, words
from benchmarks.documents.retrieval import ndcg
from soliplex.ingester.lib.models import RunStatus

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
