"""One page of a list: which rows were asked for, and what came back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, overload

from sqlmodel.ext.asyncio.session import AsyncSession
from sqlmodel.sql.expression import Select, SelectOfScalar

from soliplex.ingester.lib.models import Database, PaginatedResponse
from soliplex.ingester.lib.pieces import LARGEST_PAGE, ROWS


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page is wanted, counted from one, and how long a page is."""

    page: int = 1
    rows_per_page: int = 50

    def __post_init__(self) -> None:
        if self.page < 1 or not 1 <= self.rows_per_page <= LARGEST_PAGE:
            raise ValueError(f"no such page: {self}")  # the rims check what people ask for

    @property
    def offset(self) -> int:
        return (self.page - 1) * self.rows_per_page

    def within(self, query: Any) -> Any:
        """The query, cut down to the page."""
        return query.limit(self.rows_per_page).offset(self.offset)


FIRST_PAGE: Final = Paging()
FIRST_ROWS: Final = Paging(1, LARGEST_PAGE)
"""For callers who want the list and not a page of it."""


@dataclass(frozen=True, slots=True)
class Page[T]:
    """Rows of a list in a stable order, and how many there are in all."""

    items: list[T]
    total: int
    page: int
    rows_per_page: int

    @property
    def total_pages(self) -> int:
        return -(-self.total // self.rows_per_page)

    @property
    def has_more(self) -> bool:
        return self.page < self.total_pages

    def with_items[U](self, items: list[U]) -> Page[U]:
        """The same page, of rows that were made from its rows."""
        return Page(items, self.total, self.page, self.rows_per_page)

    def as_response(self) -> PaginatedResponse[T]:
        return PaginatedResponse(
            items=self.items,
            total=self.total,
            page=self.page,
            rows_per_page=self.rows_per_page,
            total_pages=self.total_pages,
        )


@overload
async def read_page[T](rows: SelectOfScalar[T], total: SelectOfScalar[int], paging: Paging) -> Page[T]: ...
@overload
async def read_page(rows: Select[Any], total: SelectOfScalar[int], paging: Paging) -> Page[Any]: ...
async def read_page(rows: Any, total: SelectOfScalar[int], paging: Paging) -> Page[Any]:
    """Run the two queries in one snapshot; `rows` is already cut down to the page."""
    async with Database.session(read_only=True) as session:
        count = await _count(session, total)
        items = [row async for row in rows_in_pieces(session, rows)] if count > paging.offset else []
    return Page(items, count, paging.page, paging.rows_per_page)


@overload
def rows_in_pieces[T](session: AsyncSession, rows: SelectOfScalar[T]) -> AsyncIterator[T]: ...
@overload
def rows_in_pieces(session: AsyncSession, rows: Select[Any]) -> AsyncIterator[Any]: ...
async def rows_in_pieces(session: AsyncSession, rows: Any) -> AsyncIterator[Any]:
    """The rows of a query that may give very many. Between pieces of them, others have their turn."""
    stream = session.stream_scalars if isinstance(rows, SelectOfScalar) else session.stream
    found: Any = await stream(rows.execution_options(yield_per=ROWS))
    async for piece in found.partitions():
        for row in piece:
            yield row
        await asyncio.sleep(0)


async def _count(session: AsyncSession, total: SelectOfScalar[int]) -> int:
    return int((await session.exec(total)).one() or 0)
