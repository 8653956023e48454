"""Parameters of a step as a checked, immutable value.

A parameter set is written by people. A wrong key or value is told with the key, what is wrong, and what would be right;
as it stays wrong however often the step is tried, the step fails at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.wf.errors import PermanentError, suggestion


class InvalidStepOptionError(InvalidInputError, PermanentError):
    """A parameter of a step is wrong; names the step and the key."""


class StepOptions(BaseModel):
    """Base of the options of a kind of step. A subclass names its step in `step`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    step: ClassVar[str]

    @classmethod
    def read(cls, parameters: Mapping[str, Any]) -> Self:
        """The options that a parameter set gives; a key whose value is null counts as not given."""
        try:
            return cls.model_validate(_given(parameters))
        except ValidationError as exc:
            where, problem = cls._explained(exc.errors()[0])
            raise InvalidStepOptionError(".".join((cls.step, *where)), problem) from exc

    @classmethod
    def problems_of(cls, parameters: Mapping[str, Any]) -> list[tuple[tuple[str, ...], str]]:
        """All that is wrong with them: the path of each key, and the problem."""
        try:
            cls.model_validate(_given(parameters))
        except ValidationError as exc:
            return [cls._explained(each) for each in exc.errors()]
        return []

    @classmethod
    def _explained(cls, found: ErrorDetails) -> tuple[tuple[str, ...], str]:
        where = tuple(str(part) for part in found["loc"])
        if not where:
            return (), found["msg"].removeprefix("Value error, ")
        if found["type"] == "extra_forbidden":
            known = f"; {suggestion(where[0], cls.model_fields)}" if len(where) == 1 else ""
            return where, f"there is no such parameter{known}"
        return where, found["msg"].removeprefix("Value error, ") + _instead_of(found["input"])


def _given(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _instead_of(given: Any) -> str:
    """The wrong value, where it is short: a whole rule would hide what is said of it."""
    return "" if isinstance(given, dict) else f", not {given!r}"
