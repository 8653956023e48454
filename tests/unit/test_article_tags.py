"""Tags of articles: of the closed set only, never more than asked for, with a language model and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.segmenter import Article
from soliplex.ingester.segmenter.keyphrases import keyphrases, words_in_articles
from soliplex.ingester.segmenter.tagging import TaggedBy, Tagger, TagRules, answer_model, instructions
from tests.support.chat import Answering

BEES = Article(
    0,
    "The hive in spring",
    "",
    None,
    "In spring the honey bee leaves the hive. A honey bee looks for water and pollen; the queen of the honey bees "
    "stays in the hive. Each hive has one queen.",
)


def counting(texts: Sequence[str]) -> NDArray[np.float32]:
    """Vectors that are near where texts share letters of certain words."""
    words = ("bee", "hive", "honey", "engine", "train")
    return np.array([[1 + 5 * text.lower().count(word) for word in words] for text in texts], dtype=np.float32)


async def test_a_language_model_chooses_from_the_closed_set() -> None:
    chat = Answering({"tags": ["beekeeping", "Beekeeping"]})
    tagger = Tagger(TagRules(("Beekeeping", "Trains"), maxtags=2, extra_instructions="Be strict."), chat=chat)

    found = await tagger.tags_of(BEES, "en")

    assert (found.tags, found.by) == (("Beekeeping",), TaggedBy.LLM)
    assert '["Beekeeping", "Trains"]' in chat.system
    assert chat.system.endswith("Be strict.")


@pytest.mark.parametrize("tags", [["Cars"], ["Trains", "Cars"], "Trains", [""]])
def test_an_answer_that_breaks_the_rules_does_not_fit(tags: Any) -> None:
    with pytest.raises(ValidationError):
        answer_model(TagRules(("Beekeeping", "Trains"), maxtags=2)).model_validate({"tags": tags})


@pytest.mark.parametrize(
    ("answered", "kept"),
    [(["Trains", "trains", "Beekeeping"], ["Trains", "Beekeeping"]), (["x", "y", "z"], ["x", "y"])],
)
def test_of_more_tags_than_were_asked_for_the_best_are_kept(answered: list[str], kept: list[str]) -> None:
    rules = TagRules(("Beekeeping", "Trains") if "Trains" in answered else (), maxtags=2)
    assert answer_model(rules).model_validate({"tags": answered}).tags == kept
    assert answer_model(rules).model_json_schema()["properties"]["tags"]["maxItems"] == 2


@pytest.mark.parametrize(
    ("answered", "meant"),
    [
        ("honey bee", "Honey  bee"),
        ("Honey bee", "Honey  bee"),
        ("CAFE\u0301", "Caf\u00e9"),
        ("US", "US"),
        ("us", "us"),
        ("one; two", "one; two"),
    ],
)
def test_a_tag_of_the_closed_set_is_known_however_a_model_spells_it(answered: str, meant: str) -> None:
    rules = TagRules(("Honey  bee", "Caf\u00e9", "US", "us", "one; two"))
    assert answer_model(rules).model_validate({"tags": [answered]}).tags == [meant]


def test_a_free_tag_that_no_database_stores_is_refused() -> None:
    with pytest.raises(ValidationError, match="no text may hold"):
        answer_model(TagRules()).model_validate({"tags": ["a\u0000b"]})


def test_none_of_a_closed_set_may_fit_but_a_free_tag_there_is_always() -> None:
    assert answer_model(TagRules(("Trains",))).model_validate({"tags": []}).tags == []
    with pytest.raises(ValidationError):
        answer_model(TagRules()).model_validate({"tags": []})
    assert "enum" in str(answer_model(TagRules(("Trains",))).model_json_schema())
    assert "at most 3 tags" in instructions(TagRules(maxtags=3))


async def test_without_a_language_model_the_nearest_tags_of_the_set_are_given() -> None:
    tagger = Tagger(TagRules(("train engine", "honey bee hive"), maxtags=1), embed=counting)
    found = await tagger.tags_of(BEES, "en")
    assert (found.tags, found.by) == (("honey bee hive",), TaggedBy.EMBEDDING)


async def test_a_tag_that_the_headings_above_an_article_name_is_nearer() -> None:
    rules, article = TagRules(("Motor", "Wagon")), replace(BEES, body="It has wheels.", title="Parts")
    assert (await Tagger(rules, embed=counting).tags_of(replace(article, group="The wagon > Wheels"), "en")).tags[
        0
    ] == "Wagon"
    assert (await Tagger(rules, embed=counting).tags_of(replace(article, group="The motor > Wheels"), "en")).tags[
        0
    ] == "Motor"


async def test_without_a_set_phrases_of_the_article_are_given() -> None:
    found = await Tagger(TagRules(maxtags=2)).tags_of(BEES, "en")
    assert found.by is TaggedBy.KEYPHRASES
    assert {tag.lower() for tag in found.tags} == {"honey bee", "hive"}


def test_phrases_hold_no_stop_words_of_their_language() -> None:
    text = "Der Imker und die Biene: der Imker und die Biene sind im Garten. Der Imker arbeitet."
    assert keyphrases(text, "de", 1) == ["Imker"]
    assert keyphrases("", "de", 1) == []
    assert keyphrases("42 + 17 = 59", "en", 3) == []


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("The bee and the bees. The bees' queen and a bee: a bee, a wasp and a wasp.", ["bee", "wasp"]),
        (
            "A word processor writes. Word processors print, and a word processor stores what it prints.",
            ["word processor"],
        ),
        ("See Figure 1, Figure 2 and Table 3 of Figure 4: turbines, as in Table 5.", ["turbines"]),
        ("&lt;td&gt;Turbine&lt;/td&gt; the &lt;td&gt;turbine&lt;/td&gt;", ["Turbine"]),
        ("The view `FUNCTION\\_USAGE` and FUNCTION\\_USAGE again.", ["FUNCTION_USAGE"]),
        ("Returns the length. Returns the width. Returns the turbine.", ["turbine"]),
        ("# Turbines\n\nWater and turbines, water and pressure, water and turbines.", ["turbines"]),
        ("Time and galvanometer, time and galvanometer.", ["galvanometer"]),
    ],
)
def test_phrases_are_those_that_a_reader_would_look_for(text: str, phrases: list[str]) -> None:
    assert keyphrases(text, "en", len(phrases)) == phrases


def test_words_that_stand_in_every_article_tell_less() -> None:
    elsewhere = words_in_articles(["the report says", "the report ends", "a report"] * 10)
    text = "The report: this report is about turbines. Turbines turn, as each report says of turbines."
    assert keyphrases(text, "en", 1, elsewhere) == ["turbines"]


@pytest.mark.parametrize(
    ("rules", "field"),
    [({"maxtags": 0}, "maxtags"), ({"usetags": ("a", "a")}, "usetags"), ({"usetags": (" ",)}, "usetags")],
)
def test_rules_that_cannot_be_kept_are_refused(rules: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError, match=field):
        TagRules(**rules)
