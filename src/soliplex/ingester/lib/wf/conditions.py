"""Conditions of steps, written in CEL (the Common Expression Language): `size(words) > 0 && route.branch == "long"`.

A condition may name the outputs of the steps that its step depends on, each by the step's key; the keys of the run's
input; `input`, the run's input as a whole; `params`, the parameters of the run; in a map step `item`; and where a loop
asks whether it is over, `output`, what the handler has just returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Self, override

from soliplex.ingester.lib.wf.errors import PermanentError

LONGEST: Final = 2_000
"""Characters of a condition."""


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression that is true or false. Compiled once, when its workflow is read."""

    text: str
    names: frozenset[str] = field(compare=False)
    """The names that the expression asks for; those that it gives to parts of lists are among them."""
    _program: Any = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Compile the expression; ValueError says what is wrong with it."""
        # Imported here: it is slow to import, and most workflows have no conditions.
        import cel  # noqa: PLC0415

        if len(text) > LONGEST:
            raise ValueError(f"is {len(text)} characters long; give at most {LONGEST}")
        try:
            program = cel.compile(text)
        except ValueError as exc:
            raise ValueError(f"cannot be read: {_first_problem(exc)}") from exc
        return cls(text, frozenset(program.variables()), program)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """A compiled expression cannot be sent to another process; its text can."""
        return Condition.parse, (self.text,)

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Whether the expression is true of what these names stand for."""
        try:
            value = self._program.execute(dict(names))
        except Exception as exc:
            known = ", ".join(sorted(names)) or "nothing"
            raise PermanentError(
                f"the condition {self.text!r} cannot be evaluated: {_problem_of(exc)}; known are: {known}"
            ) from exc
        if not isinstance(value, bool):
            raise PermanentError(f"the condition {self.text!r} gives {value!r}; it must give true or false")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """Calls a step's handler again and again, until a condition holds."""

    until: Condition
    max: int
    """The most calls. If the condition does not hold after the last of them, the step fails."""
    delay: timedelta = timedelta()
    """Between the end of a call and the next one."""


def _first_problem(exc: ValueError) -> str:
    """The place and the problem that the parser names, without its list of all that could have stood there."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    first = next((line for line in lines if "ERROR" in line), lines[0] if lines else "it is empty")
    return first.partition("ERROR: <input>:")[2].partition(" expecting ")[0] or first


def _problem_of(exc: BaseException) -> str:
    return f"there is no {exc.args[0]!r}" if isinstance(exc, KeyError) and exc.args else str(exc)
