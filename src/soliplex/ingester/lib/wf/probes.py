"""Named points at which a test can make a worker stumble. Inert unless a test says otherwise.

after_claim             steps are claimed, nothing has been executed
before_handler          the arguments are loaded
after_handler           the handler returned, nothing has been recorded
before_finish           a group of results is about to be written
after_finish            that group has been committed
before_delivery         an event is claimed, its handler has not been called
after_delivery          the handler returned, nothing has been recorded
"""

from __future__ import annotations

from typing import Protocol


class Probe(Protocol):
    """Told of every point a worker reaches."""

    async def reach(self, point: str) -> None: ...


class NoProbe:
    """Does nothing."""

    async def reach(self, point: str) -> None:
        del point
