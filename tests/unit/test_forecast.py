"""What an ingestion would come to, and the recorded times it is told by."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soliplex.ingester.cli.ingest.forecast_words import forecast_in_words
from soliplex.ingester.installation.forecast import START_UP, ForecastFile, forecast
from soliplex.ingester.lib.operations.rates import Executed, shared_out, start_up_of_all, summed_up

PDF, MARKDOWN = "application/pdf", "text/markdown"
START = datetime(2030, 1, 1, tzinfo=UTC)


def rate(mime_type: str, step_type: str, seconds: float, **facts: int) -> dict[str, Any]:
    known = {"documents": 1, "bytes": 1000, "pages": 0, "chunks": 0} | facts
    return {"mime_type": mime_type, "step_type": step_type, "seconds": seconds, **known}


def executed(run_id: int, step_type: str, began: float, ended: float, *, chunks: int = 0) -> Executed:
    moments = (START + timedelta(seconds=began), START + timedelta(seconds=ended))
    return Executed(run_id, step_type, *moments, MARKDOWN, 100, 0, chunks)


def test_pages_count_where_they_are_known_and_bytes_elsewhere() -> None:
    rates = [
        rate(PDF, "parse", 30.0, pages=100, chunks=400, bytes=5_000_000),
        rate(PDF, "embed", 10.0, pages=100, chunks=400, bytes=5_000_000),
        rate(MARKDOWN, "parse", 1.0, bytes=10_000, chunks=20),
    ]
    files = [ForecastFile(PDF, 900, 50), ForecastFile(MARKDOWN, 5_000), ForecastFile(MARKDOWN, 5_000)]
    found = forecast(files, {"rates": rates, "start_up_seconds": 4.0}, loads_models=True)
    pdf, markdown = found.kinds
    assert (pdf.pages, pdf.pages_are_counted, pdf.chunks, pdf.seconds) == (50, True, 200, 20.0)
    assert (markdown.files, markdown.pages_are_counted, markdown.chunks, markdown.seconds) == (2, False, 20, 1.0)
    assert (found.seconds, found.basis, found.recorded_documents) == (25.0, "recorded", 2)


def test_what_was_never_processed_is_a_guess_and_told_as_one() -> None:
    files = [ForecastFile(PDF, 900, 50), ForecastFile("image/png", 3_000_000), ForecastFile(MARKDOWN, 10)]
    guessed = forecast(files, {}, loads_models=True)
    assert guessed.basis == "guessed"
    assert {kind.mime_type: kind.pages for kind in guessed.kinds} == {PDF: 50, "image/png": 1, MARKDOWN: 1}
    assert guessed.seconds == pytest.approx(START_UP + sum(kind.seconds for kind in guessed.kinds))
    assert forecast(files, {}, loads_models=False).seconds == pytest.approx(guessed.seconds - START_UP)

    mixed = forecast(files, {"rates": [rate(PDF, "parse", 5.0, pages=50)]}, loads_models=True)
    assert mixed.basis == "partly guessed"
    *_, (last, _) = forecast_in_words(mixed)
    assert "as 1 document of the same kinds took before; a guess for PNG image, Markdown" in last


def test_a_pdf_whose_pages_cannot_be_counted_goes_by_its_size() -> None:
    rates = [rate(PDF, "parse", 10.0, pages=100, bytes=1_000_000)]
    (kind,) = forecast([ForecastFile(PDF, 500_000, None)], {"rates": rates}, loads_models=True).kinds
    assert (kind.pages, kind.pages_are_counted, kind.seconds) == (50, False, 5.0)


def test_nothing_comes_to_nothing() -> None:
    nothing = forecast([], {}, loads_models=True)
    assert (nothing.seconds, nothing.files, nothing.as_json()["kinds"]) == (0, 0, [])
    assert list(forecast_in_words(nothing)) == []


def test_shares_add_up_to_the_time_that_passed() -> None:
    # Two parse side by side for ten seconds, both are embedded in one call, and then nobody works for a day.
    steps = [
        executed(1, "parse", 0, 10, chunks=30),
        executed(2, "parse", 0, 5, chunks=10),
        executed(1, "embed", 8, 14, chunks=30),
        executed(2, "embed", 8, 14, chunks=10),
        executed(2, "store", 86_400, 86_402, chunks=10),
    ]
    shares = {(step.run_id, step.step_type): seconds for step, seconds in shared_out(steps)}
    assert sum(shares.values()) == pytest.approx(16.0)
    assert shares[1, "parse"] == pytest.approx(2 * shares[2, "parse"], rel=1e-3)
    assert shares[1, "embed"] == pytest.approx(31 / 11 * shares[2, "embed"])
    assert sum(each.seconds for each in summed_up([steps])) == pytest.approx(16.0, abs=1e-4)


def test_what_was_loaded_once_is_told_apart() -> None:
    # Three wait ten seconds for the parser, which then takes a second for each.
    waited = [executed(number, "parse", 0, 11 + number) for number in range(3)]
    steps = waited + [executed(number, "parse", 8 + number, 9 + number) for number in range(6, 12)]
    assert start_up_of_all(steps) == pytest.approx(10.0)
    shares = [seconds for _, seconds in shared_out(steps)]
    assert sum(shares) == pytest.approx(9.0)
    assert max(shares) < 2.5


def test_steps_without_any_duration_share_nothing() -> None:
    steps = [executed(1, "parse", 3, 3), executed(2, "parse", 3, 3)]
    assert [seconds for _, seconds in shared_out(steps)] == [0.0, 0.0]
