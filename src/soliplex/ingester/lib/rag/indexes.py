"""The indexes of a RAG database, kept up with what is written.

LanceDB adds new rows to no index by itself: a search reads them one by one, which for words is slow. So whoever writes
adds them, in the same turn. New rows become a segment of their own, and segments are merged once the newer ones
together are as large as the next older one, as in a log-structured merge tree: there are few of them, and a row is
rewritten a logarithmic number of times. That costs little beside embedding.

Vectors are compared one by one up to EXACT_UP_TO rows, and beyond that found by an index that rounds them to a byte a
number. Its best are compared again by the vectors themselves (`REFINE` in `searching`), so it costs next to no recall.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from soliplex.ingester.lib.rag.opening import imported

EXACT_UP_TO: Final = 20_000
"""Most rows whose vectors are compared one by one. With more, every search would be noticeably slower."""
LATE_TEXTS: Final = 500
"""Most rows that may be missing in the index of words: every search by words reads all of them."""
LATE_ROWS: Final = 5_000
"""Most rows that may be missing in any other index."""
ROWS_OF_A_PARTITION: Final = 4_096
"""Rows of a partition when LanceDB makes an index of vectors."""
OUTGROWN: Final = 4
"""How many times as large a partition may become before the index is made anew."""
METRIC: Final = "cosine"
_VECTORS: Final = "vector_idx"
_TEXTS: Final = "FTS"
_LONGEST: Final = timedelta(hours=1)

_log = logging.getLogger(__name__)


async def tend_indexes(store: Any) -> None:
    """Add to the indexes what they lack by more than they may. The caller holds the lock of the database.

    What was written is written: an index that cannot be made makes searches slow, not wrong.
    """
    try:
        await _tend_vectors(store.chunks_table)
        for table in (store.chunks_table, store.document_meta_table):
            await _catch_up(table)
    except (OSError, RuntimeError, ValueError):  # LanceDB raises these for any trouble
        _log.warning(
            "indexes of %s were not brought up to date; searches will be slower", store.location, exc_info=True
        )


async def merge_indexes(store: Any) -> None:
    """Make one segment of all that an index has, and index what is not. The caller holds the lock."""
    await _tend_vectors(store.chunks_table)
    for table in (store.chunks_table, store.document_meta_table):
        for index in await table.list_indices():
            if index.num_segments > 1 or index.num_unindexed_rows:
                await _optimize(table, index.name, index.num_segments)


def segments_to_merge(sizes: Sequence[int], new: int) -> int:
    """How many of the newest segments, of these sizes from the oldest on, become one with so many new rows."""
    merged, size = 0, new
    for older in reversed(sizes):
        if older > size:
            break
        merged, size = merged + 1, size + older
    return merged


def is_late(kind: str, missing: int, rows: int) -> bool:
    """Whether an index of this kind lacks more rows than it may."""
    return missing >= (LATE_TEXTS if kind == _TEXTS else max(LATE_ROWS, rows // 10))


def is_outgrown(rows: int, partitions: int) -> bool:
    """Whether an index of vectors was made for far fewer rows."""
    return rows > max(partitions, 1) * ROWS_OF_A_PARTITION * OUTGROWN


async def _catch_up(table: Any) -> None:
    rows = await table.count_rows()
    for index in await table.list_indices():
        missing = index.num_unindexed_rows
        if missing and is_late(index.index_type, missing, rows):
            stats = await _stats(table, index.name)
            await _optimize(table, index.name, segments_to_merge(stats["num_indexed_rows_per_delta"], missing))


async def _tend_vectors(table: Any) -> None:
    rows = await table.count_rows()
    if rows <= EXACT_UP_TO:
        return
    there = any(index.name == _VECTORS for index in await table.list_indices())
    if there and not is_outgrown(rows, _partitions(await _stats(table, _VECTORS))):
        return
    lancedb = await imported("lancedb.index")
    await table.create_index("vector", config=lancedb.IvfSq(distance_type=METRIC), replace=True, name=_VECTORS)
    await table.wait_for_index([_VECTORS], timeout=_LONGEST)


def _partitions(stats: dict[str, Any]) -> int:
    return max((segment.get("num_partitions", 1) for segment in stats["indices"]), default=1)


async def _stats(table: Any, name: str) -> dict[str, Any]:
    dataset = await table.to_lance()
    return await asyncio.to_thread(dataset.stats.index_stats, name)


async def _optimize(table: Any, name: str, merged: int) -> None:
    dataset = await table.to_lance()
    try:
        await asyncio.to_thread(dataset.optimize.optimize_indices, num_indices_to_merge=merged, index_names=[name])
    finally:
        await table.checkout_latest()  # the dataset is an object of its own, and the table still has the version before
