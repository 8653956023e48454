"""Batches: one is complete when the last of its run groups has ended, whatever became of the runs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from soliplex.ingester.lib.models.transactions import Row, Script
from soliplex.ingester.lib.wf.sql import SQL


def complete_batches(ended_groups: Iterable[Row], now: datetime) -> Script[None]:
    """Complete the batches of groups that have just ended, where no other group is still open."""
    ids = batch_ids(ended_groups)
    if ids:
        # Held first: of two groups that end at once, the second must see that the first has.
        yield SQL.lock_batches(ids=ids)
        yield SQL.complete_batches(ids=ids, now=now)


def reopen_batches(ids: list[int]) -> Script[None]:
    """There is work again in these batches."""
    if ids:
        yield SQL.reopen_batches(ids=ids)


def batch_ids(groups: Iterable[Row]) -> list[int]:
    return sorted({group["batch_id"] for group in groups if group["batch_id"] is not None})
