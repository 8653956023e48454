"""Answers that cost much and that many ask for: an open page of the web UI asks again whenever something changes.

Such a question is worked on once for all who ask it meanwhile. An answer that took long is good for nine times as long
as it took, and for ten seconds at most: so a question costs the database a tenth of the time, however many ask it and
however often, and nobody is told on a busy server what was true a minute ago. An answer that was there at once is not
kept, and is always of the moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request

from soliplex.ingester.lib.wiring import Wiring

SHARE: Final = 9
LONG: Final = 0.1
"""Seconds from which on an answer is kept."""
LONGEST: Final = 10.0
"""Seconds after which an answer is too old for whoever watches, whatever it cost."""


@dataclass(slots=True)
class _Question:
    work: asyncio.Task[Any]
    loop: asyncio.AbstractEventLoop
    good_until: float = 0.0

    @property
    def is_good(self) -> bool:
        if self.loop is not asyncio.get_running_loop():
            return False
        return not self.work.done() or self.loop.time() < self.good_until


class SharedAnswers:
    """What was asked lately, by the question."""

    def __init__(self) -> None:
        self._questions: dict[str, _Question] = {}

    async def ask[T](self, question: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer to this question: what another is told, or what `work` gives."""
        found = self._questions.get(question)
        if found is None or not found.is_good:
            found = self._questions[question] = self._begin(work)
        # Who goes away takes the answer from nobody else.
        return await asyncio.shield(found.work)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> _Question:
        loop = asyncio.get_running_loop()
        began = loop.time()
        question = _Question(loop.create_task(work()), loop)

        def note(done: asyncio.Task[Any]) -> None:
            took = loop.time() - began
            # Asking for the error marks it as seen: whoever still waits for the answer is told of it.
            if not done.cancelled() and done.exception() is None and took >= LONG:
                question.good_until = loop.time() + min(SHARE * took, LONGEST)

        question.work.add_done_callback(note)
        return question


async def shared[T](request: Request, question: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The answer to a question that many ask of the application that the request came to."""
    wiring: Wiring = request.app.state.wiring
    return await wiring.kept(SharedAnswers).ask(question, work)
