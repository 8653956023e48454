"""What can be wrong with a goal; the whole tree is drawn in `lib/errors.py`."""

from __future__ import annotations

from collections.abc import Sequence

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.wf.errors import PermanentError


class GoalError(InvalidInputError, PermanentError):
    """A goal, or what a decomposer made of it, cannot be executed: trying again would not help."""

    def __init__(self, field: str, problem: str) -> None:
        InvalidInputError.__init__(self, field, problem)


class NotUnderstoodError(GoalError):
    """No rule understands a part of a goal."""

    def __init__(self, part: str, understood: Sequence[str], sayings: Sequence[str]) -> None:
        known = "; ".join(understood) or "nothing"
        super().__init__(
            "goal", f"{part!r} is not understood (understood: {known}). What can be said: {'; '.join(sayings)}"
        )
        self.part = part
        self.understood = list(understood)
        self.sayings = list(sayings)
