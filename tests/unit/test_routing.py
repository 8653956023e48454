"""Where documents go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from soliplex.ingester.lib.routing import RouteOptions, Traits
from soliplex.ingester.lib.step_options import InvalidStepOptionError

SCAN = Traits(
    mime_type="application/pdf",
    size=3_000_000,
    uri="/archive/2024/scan.pdf",
    source="scanner",
    pages=120,
    language="de",
    meta={"department": "finance", "pages": 120},
)


def is_chosen(when: dict[str, Any], traits: Traits = SCAN) -> bool:
    options = RouteOptions.read({"rules": [{"when": when, "workflow": "elsewhere"}]})
    return options.choose(traits).rule == 0


@pytest.mark.parametrize(
    "when",
    [
        {"mime_type": "application/pdf"},
        {"mime_type": ["image/*", "application/*"]},
        {"uri": "/archive/*"},
        {"source": "scan*"},
        {"language": ["de", "fr"]},
        {"min_size": "1MiB", "max_size": "3MB"},
        {"min_pages": 100, "max_pages": 120},
        {"meta": {"department": "fin*", "pages": [1, 120]}},
        {"mime_type": "application/pdf", "language": "de", "min_pages": 2},
    ],
)
def test_conditions_hold(when: dict[str, Any]) -> None:
    assert is_chosen(when)


@pytest.mark.parametrize(
    "when",
    [
        {"mime_type": "image/*"},
        {"uri": "archive/*"},
        {"language": "fr"},
        {"min_size": "4MB"},
        {"max_pages": 119},
        {"meta": {"department": "law"}},
        {"meta": {"missing": "anything"}},
        {"mime_type": "application/pdf", "language": "fr"},
    ],
)
def test_conditions_do_not_hold(when: dict[str, Any]) -> None:
    assert not is_chosen(when)


def test_what_is_not_known_fits_no_condition() -> None:
    unknown = replace(SCAN, pages=None, language=None)
    assert not is_chosen({"min_pages": 0}, unknown)
    assert not is_chosen({"language": "*"}, unknown)


def test_the_first_rule_that_holds_decides() -> None:
    rules = [
        {"when": {"mime_type": "image/*"}, "workflow": "pictures"},
        {"when": {"min_pages": 100}, "branch": "long"},
        {"when": {"mime_type": "*"}, "workflow": "rest"},
    ]
    branches = {"long": ["split", "merge"], "short": ["whole", "merge"]}
    options = RouteOptions.read({"rules": rules, "branches": branches, "otherwise": {"branch": "short"}})
    choice = options.choose(SCAN)
    assert (choice.rule, choice.destination and choice.destination.branch) == (1, "long")
    assert options.steps_not_in("long") == ["whole"]
    assert options.choose(replace(SCAN, mime_type="image/png")).rule == 0


def test_without_a_rule_that_holds_the_document_goes_on() -> None:
    assert RouteOptions.read({}).choose(SCAN).destination is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rules": [{"when": {}, "workflow": "a"}]}, "route.rules.0.when: has no condition"),
        ({"rules": [{"when": {"uri": "*"}}]}, "route.rules.0: names no destination, or two"),
        ({"rules": [{"when": {"uri": "*"}, "workflow": "a", "branch": "b"}]}, "route.rules.0: names no destination"),
        ({"rules": [{"when": {"size": 3}, "workflow": "a"}]}, "route.rules.0.when.size: there is no such parameter"),
        ({"rules": [{"when": {"min_size": "big"}, "workflow": "a"}]}, "route.rules.0.when.min_size: "),
        ({"rules": [{"when": {"uri": "*"}, "branch": "b"}]}, "route: the branch 'b' is not defined in `branches`"),
        ({"branches": {"a": ["b"]}}, "route: has branches, but does not say which is taken where no rule holds"),
        ({"otherwise": {"branch": "b", "params": "c"}}, "route.otherwise: has params, which only go with a workflow"),
    ],
)
def test_bad_rules_are_refused_and_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidStepOptionError) as refused:
        RouteOptions.read(options)
    assert words in str(refused.value)
