"""What the segmenter needs of a language model."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from pydantic import BaseModel


class Asks(Protocol):
    """Whatever can be asked for an answer of a known shape. It raises an IngesterError where there is none."""

    async def ask_for[T: BaseModel](
        self,
        *,
        use: str,
        system: str,
        user: str,
        timeout: timedelta,  # noqa: ASYNC109  the limit of the question, retries included
        answer: type[T],
    ) -> T:
        """The model's answer, checked. `use` names what it is for, in counters and errors."""
        ...
