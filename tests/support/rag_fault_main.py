"""Processes that write to a RAG database and are struck in the middle of it.

    python -m tests.support.rag_fault_main

Each line on standard input is the JSON of an `Order`: a process is forked for it, so that the imports, which take many
seconds, are made once. What happens is told in a file, a line for each: `reached POINT PID`, `stored`, `lost`,
`failed WORDS`, and in the end `ended CODE`. When the input ends, all of them are killed.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

# Before pydantic, as in conftest.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "logfire-plugin")

from soliplex.ingester.lib.models import Database, ResourceLockKind
from soliplex.ingester.lib.rag import hold_rag_lock
from soliplex.ingester.lib.rag.fencing import FencedTable
from soliplex.ingester.lib.rag.writing import write_documents
from soliplex.ingester.lib.wf.errors import LockLostError
from tests.integration.test_rag import IDENTITY, document

FENCES: Final = [f"fence:{name}" for name in ("documents", "document_meta", "document_items", "chunks")]
CHANGES: Final = [
    "replace:document_meta",
    "replace:documents",
    "replace:document_items",
    "replace:chunks",
    "forget:document_items",
    "forget:documents",
    "forget:document_meta",
]
CREATIONS: Final = [f"create:{name}" for name in ("documents", "document_meta", "chunks", "document_items", "settings")]
"""The points, in the order in which a write comes to them; fences it puts up at once, and it creates before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A write, and what befalls it."""

    told: str
    """The file in which it tells what happens."""
    url: str
    path: str
    texts: dict[str, str]
    """What the documents say, by their names."""
    gone: list[str] = field(default_factory=list[str])
    point: str = ""
    """Where it is struck: just before that is done; of a creation, just after."""
    fault: Literal["die", "stop"] = "die"

    def say(self, *words: object) -> None:
        with Path(self.told).open("a", encoding="utf-8") as file:
            file.write(" ".join(map(str, words)) + "\n")


class Striking:
    """Stops or kills this process when it comes to a point."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._seen = set[str]()

    def reach(self, point: str) -> None:
        if point == self._order.point:
            self._order.say("reached", point, os.getpid())
            os.kill(os.getpid(), signal.SIGKILL if self._order.fault == "die" else signal.SIGSTOP)

    def install(self) -> None:
        self._before(FencedTable, "put_up", lambda table: f"fence:{table.name}")
        self._before(FencedTable, "replace", self._point_of_change)
        connection: Any = importlib.import_module("lancedb.db").AsyncConnection
        create = connection.create_table

        async def create_table(this: Any, name: str, *arguments: Any, **options: Any) -> Any:
            table = await create(this, name, *arguments, **options)
            self.reach(f"create:{name}")
            return table

        connection.create_table = create_table

    def _point_of_change(self, table: FencedTable) -> str:
        point = f"replace:{table.name}"
        return f"forget:{table.name}" if point in self._seen else self._seen.add(point) or point

    def _before(self, kind: Any, name: str, point: Callable[[Any], str]) -> None:
        original: Callable[..., Awaitable[Any]] = getattr(kind, name)

        async def struck(this: Any, *arguments: Any) -> Any:
            self.reach(point(this))
            return await original(this, *arguments)

        setattr(kind, name, struck)


async def write(order: Order) -> None:
    Striking(order).install()
    await Database.initialize(order.url)
    documents = [document(name, text) for name, text in order.texts.items()]
    try:
        async with hold_rag_lock(order.path, holder_kind=ResourceLockKind.CLI, max_wait=0) as lock:
            await write_documents(order.path, IDENTITY, documents, fence=lock, gone=order.gone)
        order.say("stored")
    except LockLostError:
        order.say("lost")
    except Exception as exc:  # noqa: BLE001  the test is told
        order.say("failed", type(exc).__name__, str(exc).replace("\n", " "))
    await Database.close()


def obey(order: Order) -> NoReturn:
    """Write in a process of its own, and tell of its end."""
    _die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        _die_with_parent()
        asyncio.run(write(order))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    order.say("ended", os.waitstatus_to_exitcode(status))
    os._exit(0)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main() -> None:
    for module in ("haiku.rag.client", "haiku.rag.store.engine", "lance", "docling_core.types.doc"):
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            obey(Order(**json.loads(line)))


if __name__ == "__main__":
    main()
