"""Parking: steps that wait for a delay or a signal (`operations/signals.py`).

    handler returns Wait(key)                            somebody sends a signal
            │                                                    │
    park_steps, in the finishing transaction             insert_signal, and nothing else
            │ takes a signal that is there already               │
            ▼                                                    ▼
    a row that the claim does not see  ◀── deliver_signals ── a row that is new
                                           a duty of every worker pairs them

A signal goes to one step: the first that waits for its key. If nobody waits, it is put on the shelf until somebody
does. Neither side may miss the other while both are under way, so whoever looks at the signals of a key and then
decides holds that key: a step is parked, and its key looked up, by one transaction that holds the key to its end; a
signal is shelved only by one that holds the key, too. Runs are held before keys. The duty, which finds keys first, does
not wait for a key: a signal whose key it cannot have stays new, and is looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from soliplex.ingester.lib.models.columns import to_sqlite_text
from soliplex.ingester.lib.models.statements import Json, to_json
from soliplex.ingester.lib.models.transactions import Row, Script
from soliplex.ingester.lib.models.workflows import NEVER
from soliplex.ingester.lib.wf.operations.runs import NewRun, Start, start_one
from soliplex.ingester.lib.wf.operations.task_queues import is_of_a_queue, send_tasks, type_of
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.work import NewSubflow, Parked

if TYPE_CHECKING:
    from soliplex.ingester.lib.wf.operations.finish import Settlement


def park(results: Sequence[Parked], settlement: Settlement) -> Script[None]:
    """Park the steps of these results; those whose signal has come already are ready at once."""
    if not results:
        return
    results = yield from _sent(results)
    packed = ",".join([_packed(result, settlement.now) for result in results])
    rows = yield SQL.park_steps(results=f"[{packed}]", now=settlement.now)
    settlement.parked(rows)
    new_runs = {result.step_id: (result, result.subflow) for result in results if result.subflow is not None}
    for row in rows:
        if row["id"] in new_runs:
            yield from _start_subflow(row, *new_runs[row["id"]], settlement)
    # Who may finish a task has yet to see its message: no signal for it can have come.
    keys = sorted({row["awaits"] for row in rows if row["awaits"] is not None and not is_of_a_queue(row["awaits"])})
    if keys:
        yield SQL.hold_keys(keys=keys)
        pairs = yield SQL.pair_parked_steps(keys=keys, ids=[row["id"] for row in rows])
        yield from resume(pairs, settlement)


def _sent(results: Sequence[Parked]) -> Script[list[Parked]]:
    """Send the tasks among these to their queues: each then waits for the signal that is named after its message."""
    tasks = [result for result in results if result.task is not None]
    if not tasks:
        return list(results)
    keys = yield from send_tasks(tasks)
    sent = [replace(task, awaits=keys[task.step_id]) for task in tasks if task.step_id in keys]
    return [*(result for result in results if result.task is None), *sent]


def _start_subflow(row: Row, result: Parked, new: NewSubflow, settlement: Settlement) -> Script[None]:
    """Start the run that a step has just been parked for. Its key is the key of the signal that its end will send."""
    start = Start(
        workflow=new.workflow,
        params=None,
        priority=row["priority"],
        now=settlement.now,
        definition_id=new.definition_id,
    )
    run = NewRun(input=new.input, key=result.awaits, parent_step_id=row["id"])
    name = f"{new.workflow.id} for step {row['id']}"
    started = yield from start_one(start, name, run)
    if not started.is_new:
        # The step was put back to its beginning, and had started that run before. Nobody waits for it any more, nor for
        # the signal that it may have sent.
        yield SQL.give_up_key(run_id=started.run_id)
        yield SQL.hold_keys(keys=[run.key])
        yield SQL.delete_signals_of_key(key=run.key)
        yield from start_one(start, name, run)
    settlement.finished.note_ready_types(map(type_of, new.workflow.first_steps), row["priority"])


def _packed(result: Parked, now: datetime) -> str:
    """The result as JSON, around a state that is JSON already."""
    facts: dict[str, Any] = {"id": result.step_id, "lease": result.lease}
    if result.awaits is not None:
        until = NEVER if result.delay is None else min(now + result.delay, NEVER)
        facts |= {"awaits": result.awaits, "available_at": to_sqlite_text(until), "message": _words(result, until)}
    elif result.delay:
        facts |= {"available_at": to_sqlite_text(now + result.delay)}
    if result.task is not None:
        facts |= {"retry": result.task.attempts_made}
    text = to_json(facts)
    return text if result.state is None else f'{text[:-1]},"state":{result.state}}}'


def _words(result: Parked, until: datetime) -> str:
    """What people read about a step that waits."""
    limit = "" if until == NEVER else f", until {until:%Y-%m-%d %H:%M:%S} UTC"
    if result.task is not None:
        return f"waits for a worker of the queue {result.task.queue!r}"
    if result.subflow is not None:
        return f"waits for a run of {result.subflow.workflow.id!r}{limit}"
    return f"waits for the signal {result.awaits!r}{limit}"


def resume(pairs: Sequence[Row], settlement: Settlement) -> Script[None]:
    """Give steps their signals. A step whose time ran out at the same moment takes none: its signal stays."""
    if not pairs:
        return
    packed = [{"signal_id": pair["signal_id"], "step_id": pair["step_id"]} for pair in pairs]
    rows = yield SQL.resume_steps(pairs=Json(packed), now=settlement.now)
    resumed = {row["id"] for row in rows}
    taken = [pair["signal_id"] for pair in pairs if pair["step_id"] in resumed]
    if taken:
        yield SQL.delete_signals(ids=taken)
    settlement.finished.note_ready(rows)
