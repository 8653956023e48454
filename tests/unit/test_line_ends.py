"""Words that end a line with a hyphen."""

from __future__ import annotations

import pytest

from soliplex.ingester.lib.parsing.line_ends import DIVIDED, mended, with_mark, with_marks


def whole(text: str, *others: str) -> str:
    return mended([text.replace("|", DIVIDED), *others])[0]


@pytest.mark.parametrize(
    ("text", "elsewhere", "expected"),
    [
        ("some experi|ments", "", "some experiments"),
        ("a well|known text", "It is well-known.", "a well-known text"),
        ("Well|known", "WELL-KNOWN, well-known, wellknown", "Well-known"),
        ("state-of-the|art", "the state-of-the-art of today", "state-of-the-art"),
        ("for|matting", "formatting, and for-matting once, formatting", "formatting"),
        ("COVID|19 from 2019|2020", "", "COVID-19 from 2019-2020"),
        ("Anglo|Saxon, CONFI|DENTIAL", "", "Anglo-Saxon, CONFIDENTIAL"),
        ("Ge|schäfts|führer", "der Geschäfts-Führer", "Geschäftsführer"),
    ],
)
def test_a_hyphen_at_the_end_of_a_line_stays_where_the_document_has_it_elsewhere(
    text: str, elsewhere: str, expected: str
) -> None:
    assert whole(text, elsewhere) == expected


def test_a_document_whose_other_words_keep_their_hyphens_does_not_divide_words() -> None:
    assert (
        whole("a hard|won, long|term, open|ended deal", "long-term open-ended")
        == "a hard-won, long-term, open-ended deal"
    )
    assert whole("a hard|won, long|term deal", "long-term") == "a hardwon, long-term deal"
    assert whole("a hard|won, con|tract", "contract") == "a hardwon, contract"


@pytest.mark.parametrize(
    ("line", "following", "is_divided"),
    [
        ("experi-", "ments", True),
        ("experi\u2010", "ments", True),
        ("a list -", "item", False),
        ("-", "item", False),
        ("either-", "(or)", False),
        ("", "", False),
    ],
)
def test_a_hyphen_divides_a_word_only_between_two_parts_of_one(line: str, following: str, *, is_divided: bool) -> None:
    assert with_mark(line, following).endswith(DIVIDED) is is_divided


def test_the_marks_of_pdfium_become_ours_or_hyphens() -> None:
    assert with_marks("experi\x02\nments, 2019-\n2020, either\x02\n(or), a -\nb") == (
        f"experi{DIVIDED}ments, 2019{DIVIDED}2020, either-\n(or), a -\nb"
    )


def test_a_word_of_a_million_letters_costs_no_more_than_as_many_words() -> None:
    endless = "a" * 1_000_000
    assert mended([endless, f"well{DIVIDED}known", "well-known"]) == [endless, "well-known", "well-known"]
