"""Metadata by rules."""

from __future__ import annotations

from typing import Any

import pytest

from soliplex.ingester.lib.enrichment import EnrichOptions, apply_rules, facts_of
from soliplex.ingester.lib.language import language_of
from soliplex.ingester.lib.step_options import InvalidStepOptionError

URI = "https://files.example.org/acme/2024/Invoice%2017.pdf?version=3"
TEXT = "# Invoice\n\nInvoice no. 17 of 3 May\nTotal: 12.50 EUR\nTotal: 7 EUR\n"


def found(rules: list[dict[str, Any]] | None = None, text: str | None = TEXT, **options: Any) -> dict[str, Any]:
    read = EnrichOptions.read({"rules": rules or [], **options})
    return apply_rules(read, facts_of(URI, "web", "application/pdf", {"title": "A title"}), text)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"from": "path", "pattern": r"^/(?P<customer>[^/]+)/(?P<year>\d{4})/"}, {"customer": "acme", "year": "2024"}),
        ({"from": "name", "field": "number", "pattern": r"Invoice (\d+)", "as": "integer"}, {"number": 17}),
        ({"from": "uri", "field": "version", "pattern": r"version=(\d+)"}, {"version": "3"}),
        ({"from": "mime_type", "field": "paper", "pattern": "pdf$", "value": True}, {"paper": True}),
        ({"from": "source", "field": "from_web", "pattern": "web", "value": "yes"}, {"from_web": "yes"}),
        ({"from": "title", "field": "title_word", "pattern": r"\w+$"}, {"title_word": "title"}),
        ({"from": "text", "field": "day", "pattern": r"(\d+) (May)", "value": r"\2 \1"}, {"day": "May 3"}),
        ({"from": "text", "field": "total", "pattern": r"^Total: ([\d.]+)", "as": "number"}, {"total": 12.5}),
        ({"from": "text", "field": "sums", "pattern": r"([\d.]+) EUR", "every": True}, {"sums": ["12.50", "7"]}),
        ({"from": "text", "field": "word", "pattern": "INVOICE", "ignore_case": True}, {"word": "Invoice"}),
        ({"from": "text", "field": "number", "pattern": r"no\. (\w+)", "as": "integer"}, {"number": 17}),
        ({"from": "text", "field": "number", "pattern": r"of 3 (\w+)", "as": "integer"}, {}),
        ({"from": "text", "field": "missing", "pattern": "nowhere"}, {}),
    ],
)
def test_a_rule_finds(rule: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found([rule]) == expected


def test_what_a_later_rule_finds_holds() -> None:
    rules = [{"from": "name", "field": "kind", "pattern": "^", "value": value} for value in ("first", "last")]
    assert found(rules, constants={"kind": "constant", "shelf": 3}) == {"kind": "last", "shelf": 3}


def test_the_language_is_told() -> None:
    german = "# Bienen\n\nAm ersten warmen Tag verlassen die Bienen den Stock und suchen Wasser."
    assert found(language=True, text=german) == {"language": "de"}
    assert found(language="written_in", text=german) == {"written_in": "de"}
    assert language_of("| 1 | 2 |\n|---|---|\n```python\nreturn None\n```\n") is None


def test_only_the_beginning_of_a_text_is_looked_at() -> None:
    rule = {"from": "text", "field": "total", "pattern": "Total"}
    assert found([rule], text_limit=20) == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rules": [{"from": "uri", "pattern": "(", "field": "a"}]}, "enrich.rules.0: the pattern '(' is no regular"),
        ({"rules": [{"from": "uri", "pattern": "a"}]}, "enrich.rules.0: give it a field, or name the groups"),
        ({"rules": [{"from": "uri", "pattern": "a", "value": "b"}]}, "enrich.rules.0: give it a field"),
        ({"rules": [{"from": "uri", "pattern": "a", "field": "f", "value": r"\1"}]}, "does not fit the pattern"),
        ({"rules": [{"from": "moon", "pattern": "a", "field": "f"}]}, "enrich.rules.0.from: Input should be 'uri'"),
        ({"rules": [{"pattern": "a", "field": "f"}]}, "enrich.rules.0.from: Field required"),
        ({"rules": [{"from": "uri", "pattern": "a", "field": "f", "patern": "b"}]}, "enrich.rules.0.patern: there is"),
        ({"constant": {"a": 1}}, "enrich.constant: there is no such parameter; did you mean 'constants'?"),
        ({"text_limit": 0}, "enrich.text_limit: Input should be greater than or equal to 1, not 0"),
    ],
)
def test_bad_rules_are_refused_and_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidStepOptionError) as refused:
        EnrichOptions.read(options)
    assert words in str(refused.value)
