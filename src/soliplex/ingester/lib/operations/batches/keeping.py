"""Batches follow the work in them: one is complete when the last of its run groups has ended, whatever became of it."""

from __future__ import annotations

from datetime import datetime

from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.operations.sql import SQL


class BatchKeeper:
    """What the engine tells of the work in batches, and what becomes of them by that."""

    def work_ended(self, batch_ids: list[int], now: datetime) -> Script[None]:
        """Complete these batches, where no other group is still open."""
        # The batches are held first: of two groups that end at once, the second must see that the first has ended.
        yield SQL.lock_batches(ids=batch_ids)
        yield SQL.complete_batches(ids=batch_ids, now=now)

    def work_began(self, batch_ids: list[int]) -> Script[None]:
        """There is work again in these batches."""
        yield SQL.reopen_batches(ids=batch_ids)
