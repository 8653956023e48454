"""The span that is current here, carried along into the process of a handler, so that its own spans stand below it.

What is carried is a `traceparent`, as the W3C writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from soliplex.ingester.lib.wiring import current_wiring

_HEADER: Final = "traceparent"


def carried_span() -> str | None:
    """The current span, for another process; None where nothing is traced."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(_HEADER)


def within_carried_span(traceparent: str | None) -> AbstractContextManager[None]:
    """For the time of the block, in the other process: what is traced stands below the span that was carried here."""
    return nullcontext() if traceparent is None else _within(traceparent)


@contextmanager
def _within(traceparent: str) -> Generator[None]:
    from opentelemetry import context  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    from soliplex.ingester.lib.wf.tracing import tracing_of  # noqa: PLC0415  it imports this module

    current_wiring().made(tracing_of)  # makes what handlers trace go where the worker's spans go
    token = context.attach(TraceContextTextMapPropagator().extract({_HEADER: traceparent}))
    try:
        yield
    finally:
        context.detach(token)
