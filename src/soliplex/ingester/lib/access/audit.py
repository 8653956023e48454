"""The audit log: who did what that stops, repeats or deletes something, and when.

An entry is written before the act and told its outcome afterwards. So an act whose process died in the middle is in the
log, too, without an outcome; and one that cannot be written down is not done. What was asked for and refused is in it
as well, with the status of the answer. Entries are kept: nothing deletes them.
"""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

from sqlmodel import col, func, select, update

from soliplex.ingester.lib.answers import AuditRecord
from soliplex.ingester.lib.models import AuditEntry, Database
from soliplex.ingester.lib.visible import visible
from soliplex.ingester.lib.wf.views.paging import FIRST_PAGE, Page, Paging, read_page

LONGEST: Final = 300
"""Characters of a text that are written down; of a longer one its beginning."""
MOST_ITEMS: Final = 20
DONE: Final = "done"

type Via = Literal["http", "local"]


class Act:
    """One entry that is being written."""

    def __init__(self, entry_id: int, details: dict[str, Any]) -> None:
        self._id = entry_id
        self._details = details

    @classmethod
    async def begin(cls, action: str, *, actor: str, via: Via, details: dict[str, Any]) -> Act:
        """Write down that the act is about to be done."""
        told = shortened(details)
        row = AuditEntry(actor=actor, via=via, action=action, details=told)
        async with Database.session() as session:
            session.add(row)
            await session.flush()
            entry_id = row.id
            await session.commit()
        assert entry_id is not None
        return cls(entry_id, told)

    def note(self, **details: Any) -> None:
        """Say more about what the act is done to."""
        self._details |= shortened(details)

    async def end(self, outcome: str) -> None:
        """Write down what came of the act."""
        values = {"outcome": _short(outcome), "details": self._details}
        async with Database.session() as session:
            await session.exec(update(AuditEntry).where(col(AuditEntry.id) == self._id).values(**values))
            await session.commit()


@asynccontextmanager
async def audited(action: str, **details: Any) -> AsyncGenerator[Act]:
    """The block does what the action names, on this machine and as the user of its process."""
    act = await Act.begin(action, actor=local_user(), via="local", details=details)
    try:
        yield act
    except BaseException as error:
        # Shielded from cancellation: that the act was broken off is known here, and nowhere else later.
        await asyncio.shield(act.end(f"{type(error).__name__}: {error}"))
        raise
    await act.end(DONE)


def local_user() -> str:
    """Who runs this process, and where."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a process in a container may run under a number that has no name
        name = "unknown"
    return f"{name}@{socket.gethostname()}"


def shortened(details: dict[str, Any]) -> dict[str, Any]:
    """The details as they are written down: what is not given left out, what is long cut."""
    return {name: _short(value) for name, value in details.items() if value is not None}


def _short(value: Any) -> Any:
    match value:
        case str():
            # What no database stores, such as NUL, is written down as its escape.
            text = visible(value[: LONGEST + 1])
            return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
        case bool() | int() | float():
            return value
        case list() | tuple() | set() | frozenset():
            items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
            rest = len(items) - MOST_ITEMS
            return [_short(each) for each in items[:MOST_ITEMS]] + ([f"… and {rest} more"] if rest > 0 else [])
        case _:
            return _short(str(value))


async def list_audit(
    *, actor: str | None = None, action: str | None = None, paging: Paging = FIRST_PAGE
) -> Page[AuditRecord]:
    """What was done, the newest first: all, or what one actor did, or one kind of act."""
    own = [col(AuditEntry.actor) == actor] if actor is not None else []
    if action is not None:
        own.append(col(AuditEntry.action) == action)
    rows = paging.within(select(AuditEntry).where(*own).order_by(col(AuditEntry.id).desc()))
    page = await read_page(rows, select(func.count()).select_from(AuditEntry).where(*own), paging)
    return page.with_items([_record(row) for row in page.items])


def _record(row: AuditEntry) -> AuditRecord:
    assert row.id is not None
    names = ("at", "actor", "via", "action", "details", "outcome")
    return AuditRecord(id=row.id, **{name: getattr(row, name) for name in names})
