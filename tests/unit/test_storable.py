"""What texts and JSON may hold, whoever asks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.storable import Unstorable, checked_meta, holds_escaped_nul, parse_object, unstorable_in
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.execution import storable_json


@pytest.mark.parametrize("text", ["", "plain", "é 漢 🙂", "\ufffd \ufffe", "\x01\x1f", r"\u0000"])
def test_a_text_that_both_databases_store_is_storable(text: str) -> None:
    assert unstorable_in(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\x00b", Unstorable.NUL),
        ("\ud83d", Unstorable.HALF_PAIR),
        ("a\udc00b", Unstorable.HALF_PAIR),
        ("\udc80\ud800", Unstorable.HALF_PAIR),
    ],
)
def test_nul_and_halves_of_surrogate_pairs_are_found(text: str, found: Unstorable) -> None:
    assert unstorable_in(text) is found


@pytest.mark.parametrize(
    ("value", "is_found"),
    [
        ("a\x00", True),
        ("\\\x00", True),
        ({"\x00": 1}, True),
        (r"\u0000", False),
        ("\\\\u0000", False),
        ("u0000", False),
    ],
)
def test_an_escaped_nul_is_told_from_the_text_of_its_escape(value: Any, *, is_found: bool) -> None:
    assert holds_escaped_nul(json.dumps(value)) is is_found


def test_a_result_may_speak_of_the_escape_of_nul() -> None:
    assert json.loads(storable_json({"text": r"C:\u0000"})) == {"text": r"C:\u0000"}
    with pytest.raises(PermanentError, match="must not hold NUL"):
        storable_json({"text": "C:\x00"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (r'{"a": "\u0000"}', "meta: must not hold NUL"),
        (r'{"\u0000": 1}', "meta: must not hold NUL"),
        (r'{"a": ["\ud83d"]}', "meta: must not hold unpaired surrogates"),
        ('{"a": "\ud83d"}', "meta: must not hold unpaired surrogates"),
    ],
)
def test_metadata_that_cannot_be_stored_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{problem}$"):
        parse_object("meta", text)
    with pytest.raises(InvalidInputError, match=f"^{problem}$"):
        checked_meta("meta", json.loads(text))


def test_metadata_may_hold_whole_pairs_and_the_text_of_an_escape() -> None:
    assert parse_object("meta", r'{"a": "\ud83d\ude42 \\u0000"}') == {"a": "🙂 \\u0000"}
