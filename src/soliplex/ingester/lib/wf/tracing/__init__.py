"""Traces for OpenTelemetry: one for each run, with a span for each attempt at a step.

    ids.py        the ids of a run's trace, worked out from the run: no worker has to ask another
    spans.py      Tracing: the spans of attempts and runs, and where they are sent; imports OpenTelemetry
    ended.py      EndedRuns: the spans of runs, which a worker sends once they have ended
    carrying.py   the span that is current, carried along into the process of a handler

    trace of run 7        run "batch" ───────────────────────────────────
                            validate ──
                                       parse (failed) ───   parse ─────
                                                                     └ whatever the handler traces itself

Nothing of OpenTelemetry is imported, and nothing is done for a step, unless TRACE_ENDPOINT says where spans go.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from soliplex.ingester.lib.errors import MissingPackageError
from soliplex.ingester.lib.wf.tracing.carrying import carried_span, within_carried_span
from soliplex.ingester.lib.wf.tracing.ids import trace_id_of

if TYPE_CHECKING:
    from soliplex.ingester.lib.config import Settings
    from soliplex.ingester.lib.wf.tracing.spans import Tracing

__all__ = ["carried_span", "check_tracing", "trace_id_of", "tracing_of", "within_carried_span"]


def check_tracing(settings: Settings) -> None:
    """MissingPackageError if the settings want traces, and what makes them is not installed."""
    if settings.trace_endpoint is not None:
        try:
            import_module(f"{__name__}.spans")  # it imports OpenTelemetry
        except ImportError as exc:
            raise MissingPackageError("opentelemetry-sdk", "TRACE_ENDPOINT", extra="otel") from exc


def tracing_of(settings: Settings) -> Tracing | None:
    """What traces the attempts of a process, if the settings want it; MissingPackageError if it is not installed."""
    if settings.trace_endpoint is None:
        return None
    check_tracing(settings)
    from soliplex.ingester.lib.wf.tracing.spans import Tracing  # noqa: PLC0415  it imports OpenTelemetry

    return Tracing(settings.trace_endpoint, ratio=settings.trace_sample_ratio)
