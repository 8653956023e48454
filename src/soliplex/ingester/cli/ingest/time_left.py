"""How much longer it takes, in words: as exact as it is known."""

from __future__ import annotations

from typing import Final

_MINUTE, _HOUR = 60, 3600
_SOON: Final = 10


def in_words(seconds: float) -> str:
    """The time that is left, rounded to what can be known of it."""
    if seconds < _SOON:
        return "a few seconds left"
    if _to(seconds, 5) < _MINUTE:
        return f"about {_to(seconds, 5)} s left"
    if _to(seconds, 10) < 10 * _MINUTE:
        rounded = _to(seconds, 10)
        minutes, rest = divmod(rounded, _MINUTE)
        return f"about {minutes} min{f' {rest} s' if rest else ''} left"
    if _to(seconds, _MINUTE) < _HOUR:
        return f"about {_to(seconds, _MINUTE) // _MINUTE} min left"
    hours, rest = divmod(_to(seconds, 5 * _MINUTE), _HOUR)
    return f"about {hours} h{f' {rest // _MINUTE} min' if rest else ''} left"


def _to(seconds: float, step: int) -> int:
    return round(seconds / step) * step
