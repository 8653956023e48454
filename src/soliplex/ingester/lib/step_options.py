"""Parameters of a step as a checked, immutable value.

A parameter set is written by people. A wrong key or value is told with the key, what is wrong, and what would be right;
as it stays wrong however often the step is tried, the step fails at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.wf.errors import PermanentError, suggestion


class InvalidStepOptionError(InvalidInputError, PermanentError):
    """A parameter of a step is wrong; names the step and the key."""


class StepOptions(BaseModel):
    """Base of the options of a kind of step. A subclass names its step in `step`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: ClassVar[str]

    @classmethod
    def read(cls, parameters: Mapping[str, Any]) -> Self:
        """The options that a parameter set gives; a key whose value is null counts as not given."""
        given = {name: value for name, value in parameters.items() if value is not None}
        try:
            return cls.model_validate(given)
        except ValidationError as exc:
            raise cls._explained(exc) from exc

    @classmethod
    def _explained(cls, exc: ValidationError) -> InvalidStepOptionError:
        first = exc.errors()[0]
        if not first["loc"]:
            return InvalidStepOptionError(cls.step, first["msg"].removeprefix("Value error, "))
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = f"; {suggestion(where, cls.model_fields)}" if len(first["loc"]) == 1 else ""
            problem = f"there is no such parameter{known}"
        else:
            problem = first["msg"].removeprefix("Value error, ") + _instead_of(first["input"])
        return InvalidStepOptionError(f"{cls.step}.{where}", problem)


def _instead_of(given: Any) -> str:
    """What was written, where that is short; a whole rule would bury what is said of it."""
    return "" if isinstance(given, dict) else f", not {given!r}"
