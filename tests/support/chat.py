"""Stands in for a language model: answers every question with the same, or fails, or never answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import BaseModel


@dataclass
class Answering:
    """What it answers: a value, an error that it raises, or None for nothing ever."""

    answer: Any
    system: str = ""
    user: str = ""

    async def ask(self, *, use: str, system: str, user: str, timeout: timedelta) -> str:  # noqa: ASYNC109  as Asks has it
        return str(await self._answered(system, user))

    async def ask_for[T: BaseModel](
        self,
        *,
        use: str,
        system: str,
        user: str,
        timeout: timedelta,  # noqa: ASYNC109  as Asks has it
        answer: type[T],
    ) -> T:
        return answer.model_validate(await self._answered(system, user))

    async def _answered(self, system: str, user: str) -> Any:
        self.system, self.user = system, user
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.Event().wait()
        return self.answer
