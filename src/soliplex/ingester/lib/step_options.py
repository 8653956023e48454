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
        name = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            problem = f"there is no such parameter; {suggestion(name, cls.model_fields)}"
        else:
            problem = f"{first['msg'].removeprefix('Value error, ')}, not {first['input']!r}"
        return InvalidStepOptionError(f"{cls.step}.{name}", problem)
