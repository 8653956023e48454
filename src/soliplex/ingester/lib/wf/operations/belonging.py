"""What run groups belong to: its owner is told, in the engine's own transaction, when the work in them ends or begins.

Groups and runs carry a `batch_id`. For the engine that is a number like any other: it stores it, finds runs by it, and
tells the owner of such numbers about it. Who that is, an extension says (`set_owner`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Protocol

from soliplex.ingester.lib.models.transactions import Row, Script
from soliplex.ingester.lib.wf.extensions import load_extensions
from soliplex.ingester.lib.wiring import current_wiring


class Owner(Protocol):
    """Whoever keeps what run groups belong to. What its scripts do is part of the transaction that tells it."""

    def work_ended(self, batch_ids: list[int], now: datetime) -> Script[None]:
        """A group of each of these batches has just ended. Other groups of the same batch may still be open."""
        ...

    def work_began(self, batch_ids: list[int]) -> Script[None]:
        """A group of each of these batches has runs to do, and had none before."""
        ...


_owner: Final = list[Owner]()


def set_owner(owner: Owner) -> None:
    """Let this owner be told, in place of any other."""
    _owner[:] = [owner]


def groups_ended(groups: Iterable[Row], now: datetime) -> Script[None]:
    """These groups have just ended; their rows are held."""
    for owner, batch_ids in _told(group["batch_id"] for group in groups):
        yield from owner.work_ended(batch_ids, now)


def groups_began(batch_ids: Iterable[int | None]) -> Script[None]:
    """Groups that belong to these batches had nothing to do, and have now."""
    for owner, ids in _told(batch_ids):
        yield from owner.work_began(ids)


def _told(batch_ids: Iterable[int | None]) -> list[tuple[Owner, list[int]]]:
    """The owner, and the ids to tell it of, in their order; nothing, where there is nothing to tell or nobody to."""
    ids = sorted({batch_id for batch_id in batch_ids if batch_id is not None})
    if not ids:
        return []
    if not _owner:
        load_extensions(current_wiring().settings)
    return [(owner, ids) for owner in _owner]
