"""What a handler may return in place of its output: that it wants to be called again, and when.

A step that waits holds no slot and no lease, uses no attempt and is polled by nobody: it is a row that the claim does
not see. What a handler needs to know at its next call it puts into `state`, which it is given back by that name; what
it waited for comes as `answer`.

    async def approve(state, answer):
        if state is None:
            return Wait("approval-17", timeout=timedelta(days=1), state="asked")
        return {"approved": bool(answer)}            # None: nobody answered within a day
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.storable import as_storable_json, checked_key
from soliplex.ingester.lib.wf.errors import PayloadTooLargeError
from soliplex.ingester.lib.wf.reading import LONGEST_DURATION

LARGEST_PAYLOAD: Final = 1 << 20
"""Bytes of a signal's payload, as JSON without blanks."""


@dataclass(frozen=True, slots=True)
class Again:
    """Asks that the handler be called again after the delay, with this state."""

    state: Any = None
    delay: timedelta | float = 0.0

    def __post_init__(self) -> None:
        check_duration("delay", self.delay)


@dataclass(frozen=True, slots=True)
class Wait:
    """Asks that the handler be called again when somebody signals the key, or when the time is over."""

    key: str
    timeout: timedelta | float | None = None
    state: Any = None

    def __post_init__(self) -> None:
        own_key(self.key)
        if self.timeout is not None:
            check_duration("timeout", self.timeout)


@dataclass(frozen=True, slots=True)
class Subflow:
    """Asks that this workflow be run with this input, and the handler be called again with its output as the answer.

    If that run fails, so does the step: a retry of the step starts another run. If the step ends in any other way, the
    run is cancelled.
    """

    slug: str
    input: Any = None
    timeout: timedelta | float | None = None
    """How long the step waits. After that the run is cancelled, and the handler is called without an answer."""
    state: Any = None

    def __post_init__(self) -> None:
        if self.timeout is not None:
            check_duration("timeout", self.timeout)


type Wish = Again | Wait | Subflow


def own_key(key: object) -> str:
    """The key of a signal that somebody sends or waits for. Those that begin with a colon are the engine's."""
    checked = checked_key(key)
    if checked.startswith(":"):
        raise InvalidInputError("key", f"is {key!r}; begin it with something else than a colon")
    return checked


def check_payload(payload: Any) -> str:
    """The payload of a signal as JSON. Refused are text that cannot be stored, and too much of it."""
    text = as_storable_json("payload", payload)
    if len(text.encode()) > LARGEST_PAYLOAD:
        raise PayloadTooLargeError(LARGEST_PAYLOAD)
    return text


def check_duration(name: str, value: object) -> timedelta:
    """The duration, from a timedelta or seconds."""
    if isinstance(value, timedelta):
        duration = value
    elif (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= LONGEST_DURATION.total_seconds()
    ):
        duration = timedelta(seconds=value)
    else:
        raise InvalidInputError(name, f"is {value!r}; give a timedelta, or seconds up to {LONGEST_DURATION.days} days")
    if not timedelta() <= duration <= LONGEST_DURATION:
        raise InvalidInputError(name, f"is {value!r}; give between 0 and {LONGEST_DURATION.days} days")
    return duration
