"""What became of a signal, as far as its sender can be told."""

from __future__ import annotations

from sqlmodel import col, func, select

from soliplex.ingester.lib.models import Database, RunStep, Signal, WorkerCheckin
from soliplex.ingester.lib.wf.answers import SentSignal, SignalStanding


async def standing_of_signal(signal_id: int, key: str) -> SentSignal:
    """How a signal stands at this moment: a worker may bring it to a step right after.

    Signals of a key go to the steps that wait for it in the order in which they came, so one is awaited if more steps
    wait than there are signals before it.
    """
    before = select(func.count()).select_from(Signal).where(Signal.key == key, col(Signal.id) < signal_id)
    waiting = select(func.count()).select_from(RunStep).where(RunStep.awaits == key)
    async with Database.session(read_only=True) as session:
        if (await session.exec(select(Signal.id).where(Signal.id == signal_id))).first() is None:
            standing = SignalStanding.TAKEN
        else:
            steps, ahead = (await session.exec(waiting)).one(), (await session.exec(before)).one()
            standing = SignalStanding.AWAITED if steps > ahead else SignalStanding.KEPT
        has_workers = (await session.exec(select(WorkerCheckin.id).limit(1))).first() is not None
    return SentSignal(signal_id, key, standing, has_workers)
