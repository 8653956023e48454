"""Stands in for a language model: answers every question with the same, or fails, or does not answer in time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from soliplex.ingester.lib.llm import ChatUnavailableError


@dataclass
class Answering:
    """What it answers: a value, an error that it raises, or None for nothing within the time limit."""

    answer: Any
    system: str = ""
    user: str = ""

    async def ask(self, *, use: str, system: str, user: str, timeout: timedelta) -> str:  # noqa: ASYNC109  as Asks has it
        return str(self._answered(use, system, user))

    async def ask_for[T: BaseModel](
        self,
        *,
        use: str,
        system: str,
        user: str,
        timeout: timedelta,  # noqa: ASYNC109  as Asks has it
        answer: type[T],
    ) -> T:
        return answer.model_validate(self._answered(use, system, user))

    def _answered(self, use: str, system: str, user: str) -> Any:
        self.system, self.user = system, user
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            raise ChatUnavailableError(use, "no answer in time")
        return self.answer
