"""A process that takes in a document and is killed on the way: after its bytes are kept, before its rows are written.

Its arguments: the database's URL, the id of the batch, and the content.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import NoReturn

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.operations import recording
from tests.support.documents import upload


def die(*_facts: object, **_options: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


async def main(url: str, batch_id: str, content: str) -> None:
    await Database.initialize(url)
    recording.recorded = die
    await upload("/killed", content.encode(), int(batch_id))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
