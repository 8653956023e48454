"""What the engine counts and times. The worker takes anything that speaks the `Metrics` protocol.

Counters: claim_attempts, claim_success, claim_idle, claim_error, claim_lost_race, step_completed, step_error,
step_failed, step_released, step_reset_by_reaper, worker_reaped, lease_lost, resource_lock_swept, run_ended.
Histograms, in seconds: claim_duration, step_duration, group_duration.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, Final, Protocol

_log = logging.getLogger("soliplex.ingester.metrics")

COUNTERS: Final[dict[str, str]] = {
    "claim_attempts": "Claim attempts.",
    "claim_success": "Steps claimed.",
    "claim_idle": "Claims that found no work.",
    "claim_error": "Claims that raised.",
    "claim_lost_race": "Claims whose resource was taken between choice and lock.",
    "step_completed": "Steps recorded as completed.",
    "step_error": "Attempts that failed and will be repeated.",
    "step_failed": "Steps that failed for good.",
    "step_released": "Steps given back on shutdown or cancellation.",
    "step_reset_by_reaper": "Steps of dead workers that were given back.",
    "worker_reaped": "Dead workers that were reaped.",
    "lease_lost": "Results dropped because another worker owned the step.",
    "resource_lock_swept": "Expired resource locks that were removed.",
    "run_ended": "Runs whose end a worker has recorded.",
}
HISTOGRAMS: Final[dict[str, str]] = {
    "claim_duration": "Wall time of a claim.",
    "step_duration": "Wall time of a step's handler; of steps that share a call, their share of it.",
    "group_duration": "Wall time from the creation of a run group to its end.",
}
LABELS: Final[dict[str, tuple[str, ...]]] = {
    "claim_attempts": ("pool",),
    "claim_success": ("pool",),
    "claim_idle": ("pool",),
    "claim_error": ("pool",),
    "claim_lost_race": ("pool",),
    "claim_duration": ("pool",),
    "step_duration": ("step_type",),
    "lease_lost": ("phase",),
    "run_ended": ("status",),
}
_BUCKETS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800)
_LONG_BUCKETS: Final = (1, 10, 60, 300, 900, 3600, 3 * 3600, 12 * 3600, 24 * 3600, 7 * 24 * 3600)
BUCKETS: Final[dict[str, tuple[float, ...]]] = {"group_duration": _LONG_BUCKETS}
"""The buckets of histograms that do not use `_BUCKETS`."""


class Metrics(Protocol):
    """Where counts and durations go."""

    def incr(self, name: str, value: int = 1, **labels: str) -> None:
        """Add to a counter."""
        ...

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Record a duration in seconds."""
        ...


class LoggingMetrics:
    """Writes everything to the log at DEBUG; costs nothing while that level is off."""

    def incr(self, name: str, value: int = 1, **labels: str) -> None:
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s +%d %s", name, value, labels or "")

    def observe(self, name: str, value: float, **labels: str) -> None:
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s %.6f s %s", name, value, labels or "")


class MemoryMetrics:
    """Keeps totals in memory: for tests, and for a program that wants to look."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.observed = Counter[str]()

    def incr(self, name: str, value: int = 1, **labels: str) -> None:
        del labels
        self.counts[name] += value

    def observe(self, name: str, value: float, **labels: str) -> None:
        del value, labels
        self.observed[name] += 1


def count_from_zero(metrics: Metrics, pools: Iterable[str]) -> None:
    """Tell what was never counted: nobody who watches sees the first failure of something that is not there."""
    values = {"pool": tuple(pools), "phase": ("finish", "lock", "look"), "status": ("COMPLETED", "FAILED", "CANCELLED")}
    for name in COUNTERS.keys() & LABELS.keys():
        (label,) = LABELS[name]
        for value in values[label]:
            metrics.incr(name, 0, **{label: value})


class PrometheusMetrics:
    """Counters and histograms of prometheus-client, under `soliplex_…`; all workers of a registry share them."""

    def __init__(self, registry: Any = None) -> None:
        import prometheus_client as prometheus  # noqa: PLC0415  only where it is used

        self._counters, self._histograms = _register(registry or prometheus.REGISTRY)

    def incr(self, name: str, value: int = 1, **labels: str) -> None:
        counter = self._counters[name]
        (counter.labels(**labels) if name in LABELS else counter).inc(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        histogram = self._histograms[name]
        (histogram.labels(**labels) if name in LABELS else histogram).observe(value)


@cache
def _register(registry: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metrics of a registry, made once: it refuses a second metric of the same name."""
    import prometheus_client as prometheus  # noqa: PLC0415

    def names(name: str, text: str) -> tuple[str, str, tuple[str, ...]]:
        return f"soliplex_{name}", text, LABELS.get(name, ())

    counters = {name: prometheus.Counter(*names(name, text), registry=registry) for name, text in COUNTERS.items()}
    histograms = {
        name: prometheus.Histogram(*names(name, text), registry=registry, buckets=BUCKETS.get(name, _BUCKETS))
        for name, text in HISTOGRAMS.items()
    }
    return counters, histograms
