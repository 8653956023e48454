"""A forecast for people: a line for each kind of document, and what the figures rest on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from soliplex.ingester.cli.output import as_duration, as_size, counted
from soliplex.ingester.installation.forecast import Forecast, KindForecast

_HEADINGS: Final = ("", "documents", "size", "pages", "chunks", "time")
SHORT: Final = 0.5
"""Seconds: if loading parser and model takes less, it is not mentioned."""


def forecast_in_words(forecast: Forecast) -> Iterator[tuple[str, str]]:
    """Lines and their styles; `~` stands before what is estimated."""
    if not forecast.kinds:
        return
    rows = [_HEADINGS, *(_row(kind.name, kind) for kind in forecast.kinds)]
    if forecast.start_up >= SHORT:
        rows.append(("loading models", "", "", "", "", f"~{as_duration(forecast.start_up)}"))
    if len(rows) > 2:  # noqa: PLR2004  headings, and a line that is all there is
        rows.append(_row("in all", forecast))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    for number, row in enumerate(rows):
        yield "  " + _aligned(row, widths), "dim" if number == 0 else ""
    yield f"Expected time: about {as_duration(forecast.seconds)}, {_basis(forecast)}.", "bold"


def _row(name: str, what: KindForecast | Forecast) -> tuple[str, ...]:
    mark = "" if what.pages_are_counted else "~"
    return (
        name,
        f"{what.files:,}",
        as_size(what.bytes),
        f"{mark}{what.pages:,}",
        f"~{what.chunks:,}",
        f"~{as_duration(what.seconds)}",
    )


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
    return "  ".join([row[0].ljust(widths[0]), *cells])


def _basis(forecast: Forecast) -> str:
    recorded = f"as {counted(forecast.recorded_documents, 'document')} of the same kinds took before"
    if not forecast.guessed:
        return recorded
    if not forecast.recorded_documents:
        return "which is a guess: no such documents have been processed here yet"
    names = ", ".join(kind.name for kind in forecast.guessed)
    return f"{recorded}; a guess for {names}, of which none has been processed here yet"
