"""Circuit breakers: a host that fails again and again is left alone for a while, whatever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

MOST_HOSTS: Final = 10_000


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    open_until: float = 0.0
    """Until this moment the host is left alone. After it, one message is tried, and others wait for its outcome."""


class Circuits:
    """What this process has seen of hosts. Another learns the same from tries of its own."""

    def __init__(self, *, failures: int, pause: timedelta, clock: Callable[[], float]) -> None:
        self._failures = failures
        self._pause = pause.total_seconds()
        self._clock = clock
        self._circuits: dict[str, _Circuit] = {}

    def time_to_wait(self, host: str) -> timedelta:
        """How long the host is still left alone. Zero: the caller may try it, and then does."""
        circuit = self._circuits.get(host)
        if circuit is None or circuit.failures < self._failures:
            return timedelta()
        wait = circuit.open_until - self._clock()
        if wait > 0:
            return timedelta(seconds=wait)
        circuit.open_until = self._clock() + self._pause
        return timedelta()

    def note(self, host: str, *, works: bool) -> bool:
        """Note what came of a try; gives whether the host is left alone from now on, and was not before."""
        if works:
            self._circuits.pop(host, None)
            return False
        if len(self._circuits) >= MOST_HOSTS:
            self._circuits.clear()
        circuit = self._circuits.setdefault(host, _Circuit())
        circuit.failures += 1
        if circuit.failures >= self._failures:
            circuit.open_until = self._clock() + self._pause
        return circuit.failures == self._failures
