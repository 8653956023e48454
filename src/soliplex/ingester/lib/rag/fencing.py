"""Fences: who has lost the lock of a RAG database cannot change it any more.

A lock alone does not keep a writer out. A process that was stopped, or cut off from the document database, wakes up
after its lock has gone to another, and goes on with the write it had begun. So every holder of the lock gets a token,
larger than all before it (`take_fence`), and puts it into the schema of each table before it does anything else:

    holder 7:  fence 7 ─ write ─ (stopped) ·························· write ✗ refused
    holder 8:                        fence 8 ─ write ─ write

Putting up a fence is a commit that changes nothing but the token. It is made as Lance's `Merge`, which Lance never
combines with another change of the same table: a change that was prepared before the fence cannot be committed after
it, and a fence that was prepared before a change cannot be committed after that. The token stands in the schema of
every later version, so a writer that opens a table late sees that its own token is an old one.

Changes are made here and by nothing else (`replace`, `maintain`). None of them puts back an old version, none is tried
again on a version whose token is another's, and each is one commit, which a crash leaves made or not made.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from soliplex.ingester.lib.rag.opening import imported
from soliplex.ingester.lib.wf.errors import LockLostError

TOKEN: Final = b"soliplex.fence"
"""The key in a table's schema under which the token of its last holder stands."""
TRIES: Final = 20
"""How often a change is tried when writers without a valid token change the table in between."""
_TROUBLES: Final = (OSError, RuntimeError, ValueError)
"""What Lance raises for any trouble, also for a change that it does not combine with another."""

_log = logging.getLogger(__name__)


class Fence(Protocol):
    """The right to write to a database."""

    @property
    def key(self) -> str: ...

    async def token(self, above: int = 0) -> int:
        """A token larger than `above`, and than those of all earlier holders; raises if the lock is another's."""
        ...


class SoleWriter:
    """The right to write to a database that nobody else knows of: a benchmark's, or a test's."""

    key = "a database of one writer"

    async def token(self, above: int = 0) -> int:
        return above + 1


class FencedTable:
    """A table of a RAG database, for as long as its fence holds."""

    def __init__(self, table: Any, name: str, fence: Fence) -> None:
        self.name = name
        self._table = table
        self._fence = fence
        self._token = 0
        self._dataset: Any = None
        """The version that the next change is made to. It bears this writer's token, or nothing is changed."""

    @property
    def schema(self) -> Any:
        """The columns, without what the schema says about itself."""
        return self._dataset.schema.remove_metadata()

    async def put_up(self, token: int) -> None:
        """Put the token into the table's schema; or a larger one, where that is needed."""
        await self._go_to_newest()
        for _ in range(TRIES):
            found = _token_of(self._dataset)
            if found >= token:
                # Either this writer is late and its lock is gone, or the table was written under locks of another
                # document database. Only who still holds the lock is given a larger token.
                token = await self._fence.token(above=found)
            if await self._is_done(lambda dataset, mine=token: _put_up(dataset, mine)):
                self._token = token
                return
        raise LockLostError(self._fence.key)

    async def drop_old_versions(self, retention: timedelta) -> None:
        """Drop the versions before this one that are older than this.

        The one that stays is a fence: Lance compares a late change with the changes that are still on record since it
        began, and would combine it with all of them if the fence were among those that are dropped.
        """
        await self.maintain(lambda dataset: _put_up(dataset, self._token))
        await self.maintain(lambda dataset: _drop_old_versions(dataset, retention))

    async def replace(self, column: str, ids: Sequence[str], rows: Callable[[], Iterator[Any]] | None = None) -> int:
        """Put rows in the place of all whose column has one of these values; gives how many there were.

        `rows` gives record batches, and is called anew for each try. All happens in one commit, or nothing.
        """
        where, replaced = among(column, ids), 0

        def change(dataset: Any) -> None:
            nonlocal replaced
            replaced = _replace(dataset, where, rows)

        if ids:
            await self.maintain(change)
        return replaced

    async def maintain(self, change: Callable[[Any], object]) -> None:
        """Let Lance change the table, if it is this writer's. `change` is given the version to be changed.

        The table must be this writer's afterwards, too: where there was nothing to change, no commit was refused.
        """
        for _ in range(TRIES):
            is_done = _token_of(self._dataset) == self._token and await self._is_done(change)
            if _token_of(self._dataset) != self._token:
                break
            if is_done:
                return
        raise LockLostError(self._fence.key)

    async def ids(self, column: str, some: Sequence[str] | None = None) -> set[str]:
        """The values of a column; only those among `some`, if these are given."""
        where = None if some is None else among(column, some)
        found = await asyncio.to_thread(lambda: self._dataset.to_table(columns=[column], filter=where))
        return set(found.column(column).to_pylist())

    async def rows(self, column: str, ids: Sequence[str]) -> list[dict[str, Any]]:
        """The rows whose column has one of these values."""
        found = await asyncio.to_thread(lambda: self._dataset.to_table(filter=among(column, ids)))
        return found.to_pylist()

    async def _is_done(self, change: Callable[[Any], object]) -> bool:
        """Make the change, and go to the newest version. False: it failed, and another change was made meanwhile.

        Which of the two it was, Lance does not tell by any code: a commit may come too late, or the files of the
        version that it begins with may be gone.
        """
        version = self._dataset.version
        try:
            await asyncio.to_thread(change, self._dataset)
        except _TROUBLES as exc:
            await self._go_to_newest()
            if self._dataset.version == version:
                raise
            _log.info("a change of the table %s came after another: %s", self.name, exc)
            return False
        await self._go_to_newest()
        return True

    async def _go_to_newest(self) -> None:
        await self._table.checkout_latest()
        self._dataset = await self._table.to_lance()


class FencedTables:
    """The tables of a RAG database, all of them behind the fence of one writer."""

    def __init__(self, store: Any, fence: Fence) -> None:
        self.documents = FencedTable(store.documents_table, "documents", fence)
        self.metas = FencedTable(store.document_meta_table, "document_meta", fence)
        self.items = FencedTable(store.document_items_table, "document_items", fence)
        self.chunks = FencedTable(store.chunks_table, "chunks", fence)

        self._settings = FencedTable(store.settings_table, "settings", fence)
        self._fence = fence

    @property
    def all(self) -> tuple[FencedTable, ...]:
        """The tables that hold something of documents."""
        return self.documents, self.metas, self.items, self.chunks

    async def with_settings(self) -> FencedTable:
        """The table of settings, which stands behind a fence only when it is asked for: it is hardly ever changed."""
        await self._settings.put_up(await self._fence.token())
        return self._settings


async def put_up_fences(store: Any, fence: Fence) -> FencedTables:
    """Shut out all earlier writers of the database."""
    await imported("lance")
    tables = FencedTables(store, fence)
    token = await fence.token()
    await asyncio.gather(*(table.put_up(token) for table in tables.all))
    return tables


def among(column: str, ids: Sequence[str]) -> str:
    """The condition that a column has one of these values."""
    return "{} IN ({})".format(column, ", ".join("'{}'".format(each.replace("'", "''")) for each in ids))


def _token_of(dataset: Any) -> int:
    return int((dataset.schema.metadata or {}).get(TOKEN, 0))


def _put_up(dataset: Any, token: int) -> None:
    from lance import LanceDataset, LanceOperation  # noqa: PLC0415  takes seconds; `put_up_fences` has imported it

    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    merge = LanceOperation.Merge(fragments=fragments, schema=_with_token(dataset.lance_schema, token))
    LanceDataset.commit(dataset, merge, read_version=dataset.version, max_retries=0)


def _drop_old_versions(dataset: Any, retention: timedelta) -> None:
    since = datetime.now() - retention  # noqa: DTZ005  Lance tells the time of a version as this machine's clock has it
    old = [each["version"] for each in dataset.versions() if each["timestamp"] <= since]
    # By number: a fence that another has put up meanwhile stays. Tagged ones stay, as somebody asked for.
    if dropped := [version for version in old if version < dataset.version]:
        dataset.cleanup_old_versions(versions=dropped, error_if_tagged_old_versions=False)


def _with_token(schema: Any, token: int) -> Any:
    """The same schema with the token in its metadata.

    By way of how Lance pickles a schema, since all else numbers the columns anew: in a table that has lost a column,
    the old data would then be read under wrong names.
    """
    rebuild, (metadata, *columns) = schema.__reduce__()
    said = json.loads(metadata) | {TOKEN.decode(): list(str(token).encode())}
    rebuilt = rebuild(json.dumps(said), *columns)
    if [column.id() for column in rebuilt.fields()] != [column.id() for column in schema.fields()]:
        raise RuntimeError("Lance pickles schemas in another way than this program knows")
    return rebuilt


def _replace(dataset: Any, where: str, rows: Callable[[], Iterator[Any]] | None) -> int:
    """Delete in the fragments that hold such rows, write the new rows beside them, and commit both together."""
    from lance import LanceDataset, LanceOperation  # noqa: PLC0415
    from lance.fragment import write_fragments  # noqa: PLC0415
    from pyarrow import RecordBatchReader  # noqa: PLC0415

    found = dataset.to_table(columns=[], filter=where, with_row_address=True).column("_rowaddr").to_pylist()
    changed, emptied = list[Any](), list[int]()
    for fragment_id in sorted({address >> 32 for address in found}):
        left = dataset.get_fragment(fragment_id).delete(where)
        if left is None:
            emptied.append(fragment_id)
        else:
            changed.append(left)
    added = list[Any]()
    if rows is not None:
        schema = dataset.schema.remove_metadata()
        added = list(write_fragments(RecordBatchReader.from_batches(schema, rows()), dataset, schema=schema))
    if found or added:
        update = LanceOperation.Update(
            removed_fragment_ids=emptied, updated_fragments=changed, new_fragments=added, fields_modified=[]
        )
        LanceDataset.commit(dataset, update, read_version=dataset.version, max_retries=0)
    return len(found)
