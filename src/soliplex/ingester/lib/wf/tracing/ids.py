"""The ids of a run's trace. Every worker, on whatever machine, works out the same ones from the run itself."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, NamedTuple

_OF_A_RUN: Final = b"soliplex-ingester run %d of %s"
_HALF: Final = 2**64


class TraceIds(NamedTuple):
    """The id of a run's trace, and of the span in it that stands for the whole run."""

    trace_id: int
    span_id: int

    @property
    def hex(self) -> str:
        """The id of the trace as pages and headers have it."""
        return f"{self.trace_id:032x}"

    def is_sampled(self, ratio: float) -> bool:
        """Whether the run is among the share of runs that are traced; OpenTelemetry's own rule."""
        return self.trace_id % _HALF < ratio * _HALF


def trace_ids_of(run_id: int, created_date: datetime) -> TraceIds:
    """The ids for a run. Its moment of creation keeps apart runs of two installations that send to one receiver."""
    text = created_date.astimezone(UTC).isoformat(timespec="microseconds")
    digest = sha256(_OF_A_RUN % (run_id, text.encode())).digest()
    return TraceIds(int.from_bytes(digest[:16]), int.from_bytes(digest[16:24]))


def trace_id_of(run_id: int, created_date: datetime) -> str:
    """The id of the run's trace, in hexadecimal digits."""
    return trace_ids_of(run_id, created_date).hex
