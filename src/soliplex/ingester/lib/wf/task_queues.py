"""Steps for workers that know SQL: sent to a queue of pgmq, in any language taken from there, finished by a function.

    our worker                       pgmq                         worker in any language
    claims the step ── send_batch ─▶ message ── pgmq.read ──────▶ works
    parks it under the message's key                              │
    claims it again ◀── signal ◀───────── complete_task(...) ◀────┘

To the engine it is a step like any other, with the handler below: first it asks to wait for the signal that the
message is finished with, then it gives what was answered. The visibility timeout brings a lost message to the next
worker; each time that it is read is an attempt. Where the database is SQLite, steps go to workers as if they had no
queue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast, override

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf.definitions import StepDefinition
from soliplex.ingester.lib.wf.errors import CannotExecute, FailedOutside
from soliplex.ingester.lib.wf.handlers import StepContext, batch_handler
from soliplex.ingester.lib.wf.operations.task_queues import AT_ONCE, is_sent, open_queue
from soliplex.ingester.lib.wf.waiting import Wait
from soliplex.ingester.lib.wf.work import ClaimedStep

if TYPE_CHECKING:
    import asyncpg

_HANDLER: Final = f"{__name__}.send_or_settle"
_TASK: Final = ":task"
"""The key, in a step's answer, that says that a worker of a queue has finished it."""
_LOOK_AGAIN_AFTER: Final = 5.0
"""Seconds after which it is seen anew that a queue is there."""
_INSTALLING: Final = 0x70_67_6D_71  # any constant will do, so long as every process uses the same


@dataclass(frozen=True, slots=True)
class SentTask(Wait):
    """Asks that the step be sent to the queue, and its handler be called again once a worker has finished it."""

    queue: str = ""
    headers: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @override
    def __post_init__(self) -> None:
        """The key is made when the message is sent."""


def method_of(definition: StepDefinition) -> str:
    """The handler that our workers call for the step."""
    return _HANDLER if definition.queue is not None and is_sent(definition) else definition.method


@batch_handler(limit=AT_ONCE, wants=())
async def send_or_settle(batch: Sequence[StepContext]) -> list[Any]:
    """Send the steps that have no answer yet; of the others, give what was answered."""
    definition = batch[0].step.definition
    assert definition is not None
    assert definition.queue is not None
    wish = SentTask("", queue=definition.queue, headers={"command": definition.command})
    steps = [context.step for context in batch]
    answers = [_answer_to(step) for step in steps]
    if None in answers:
        await _see_that_it_is_there(definition.queue)
    return [wish if answer is None else _given(step, answer) for step, answer in zip(steps, answers, strict=True)]


def _answer_to(step: ClaimedStep) -> Mapping[str, Any] | None:
    """How a worker of the queue has finished the step, if one has."""
    answer = step.answer if step.row["answer"] is not None else None
    return cast("Mapping[str, Any]", answer) if isinstance(answer, dict) and _TASK in answer else None


def _given(step: ClaimedStep, answer: Mapping[str, Any]) -> Any:
    """The output, or the error that stands for the failed attempt."""
    if answer.get("since") is not None:
        step.began_at = datetime.fromisoformat(answer["since"]).astimezone(UTC)
    if answer[_TASK] == "completed":
        return answer["output"]
    return FailedOutside(answer["reason"] or "failed without a reason", attempts=answer["attempts"])


_seen: Final[dict[tuple[int, str], float]] = {}
"""The queues that were there a moment ago, by database and name, and until when that is believed."""


async def _see_that_it_is_there(queue: str) -> None:
    key = (Database.identity(), queue)
    if _seen.get(key, 0.0) > time.monotonic():
        return
    if not await Database.transact(open_queue(queue, utcnow())):
        await install_pgmq()
        await Database.transact(open_queue(queue, utcnow()))
    _seen[key] = time.monotonic() + _LOOK_AGAIN_AFTER


async def install_pgmq() -> None:
    """Put pgmq into the database. Its script cannot be run twice: whoever comes second finds it there."""
    script = await asyncio.to_thread(_script_of_pgmq)
    async with Database.engine().connect() as connection:
        raw = cast("asyncpg.Connection[Any]", (await connection.get_raw_connection()).driver_connection)
        async with raw.transaction():
            await raw.execute(f"SELECT pg_advisory_xact_lock({_INSTALLING})")
            # Not by to_regclass: it may answer from what this connection remembers of before it waited for the lock.
            if not await raw.fetchval("SELECT 1 FROM pg_tables WHERE schemaname = 'pgmq' AND tablename = 'meta'"):
                await raw.execute(script)


def _script_of_pgmq() -> str:
    """As the package brings it. A worker that has it not leaves the step to one that has."""
    try:
        from pgmq.install import get_embedded_install_sql  # noqa: PLC0415  the package is an extra
    except ImportError as exc:
        raise CannotExecute(
            'the database has no pgmq; run CREATE EXTENSION pgmq, or install "soliplex-ingester[pgmq]"'
        ) from exc
    return get_embedded_install_sql()
