"""What answers over HTTP say about trying again."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from soliplex.ingester.lib.http_statuses import may_pass, wait_asked_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", timedelta()), (" 120 ", timedelta(minutes=2)), ("31536000", timedelta(days=365))],
)
def test_a_number_of_seconds_is_a_wish(text: str, expected: timedelta) -> None:
    assert wait_asked_for(httpx.Headers({"retry-after": text})) == expected


@pytest.mark.parametrize(
    "text", ["", "soon", "-1", "1.5", "31536001", "9" * 400, "²", "٣", "Wed, 21 Oct 2026 07:28:00 GMT"]
)
def test_anything_else_is_none(text: str) -> None:
    assert wait_asked_for({"Retry-After": text}) is None


def test_a_server_that_says_nothing_has_no_wish() -> None:
    assert wait_asked_for({}) is None


@pytest.mark.parametrize(("status", "expected"), [(400, False), (404, False), (408, True), (429, True), (500, True)])
def test_errors_of_the_server_and_of_the_moment_may_pass(status: int, expected: bool) -> None:
    assert may_pass(status) is expected
