"""Which servers are well.

    closed ──3 failures in a row──▶ open ──after its pause──▶ half open: one call may try
       ▲                             ▲                            │
       │                             └────it fails: longer pause──┤
       └────────────────────it succeeds───────────────────────────┘

A server that is down costs each document a timeout; while its breaker is open, it costs nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from soliplex.ingester.lib.parsing.errors import ParserUnavailableError
from soliplex.ingester.lib.wf.retries import Backoff

FAILURES_TO_OPEN: Final = 3
PAUSES: Final = Backoff(first=timedelta(seconds=5), longest=timedelta(minutes=5))


class ServerTrouble(Exception):  # noqa: N818  it never leaves this package: it says that another server may do better
    """A server did not do what it should, and the document is not to blame."""


class TaskFailed(ServerTrouble):
    """A server worked on the document, and nothing came of it. Another may do better; this one is well."""


@dataclass(slots=True)
class Server:
    """What is known of one server."""

    url: str
    failures: int = 0
    open_until: float | None = None
    under_way: int = 0

    @property
    def is_trying(self) -> bool:
        return self.open_until is not None and self.under_way > 0


@dataclass(slots=True)
class Servers:
    """Chooses a server for each document, and learns from what comes of it."""

    urls: Sequence[str]
    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random
    _servers: list[Server] = field(init=False)

    def __post_init__(self) -> None:
        self._servers = [Server(url) for url in self.urls]

    def choose(self, *, but_not: Sequence[str] = ()) -> Server:
        """The least busy server that is well and has not been tried yet; else one that may have recovered."""
        candidates = [server for server in self._servers if server.url not in but_not and self._may_take(server)]
        if not candidates:
            raise ParserUnavailableError(self._why_none())
        return min(candidates, key=lambda server: (server.open_until is not None, server.under_way))

    @contextmanager
    def using(self, server: Server) -> Generator[None]:
        """While a document is on the server. ServerTrouble counts against it, anything else for it.

        A document that ends its own tasks must not make all others wait.
        """
        server.under_way += 1
        try:
            yield
        except TaskFailed:
            self._succeeded(server)
            raise
        except ServerTrouble:
            self._failed(server)
            raise
        except Exception:
            self._succeeded(server)
            raise
        else:
            self._succeeded(server)
        finally:
            server.under_way -= 1

    def _may_take(self, server: Server) -> bool:
        return server.open_until is None or (server.open_until <= self.clock() and not server.is_trying)

    def _failed(self, server: Server) -> None:
        server.failures += 1
        if server.failures >= FAILURES_TO_OPEN:
            pause = PAUSES.delay_after(server.failures - FAILURES_TO_OPEN + 1, random=self.random)
            server.open_until = self.clock() + pause.total_seconds()

    def _succeeded(self, server: Server) -> None:
        server.failures = 0
        server.open_until = None

    def _why_none(self) -> str:
        waits = [server.open_until - self.clock() for server in self._servers if server.open_until is not None]
        hosts = ", ".join(server.url for server in self._servers)
        if not waits:
            return f"docling-serve did not do its work at {hosts}"
        return f"docling-serve is out of order at {hosts}; the next try is due in {max(0.0, min(waits)):.0f} s"
