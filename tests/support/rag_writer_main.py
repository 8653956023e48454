"""A process that writes to a RAG database again and again, each time under its lock, and says when it held it.

python -m tests.support.rag_writer_main DATABASE_URL RAG_PATH COUNT
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from soliplex.ingester.lib.models import Database, ResourceLockKind
from soliplex.ingester.lib.rag import hold_rag_lock
from soliplex.ingester.lib.rag.writing import write_documents
from tests.integration.test_rag import IDENTITY, document


async def main(url: str, path: str, count: int) -> None:
    await Database.initialize(url)
    held: list[tuple[float, float]] = []
    print("ready", flush=True)  # noqa: T201  for the test to read
    for number in range(count):
        async with hold_rag_lock(path, holder_kind=ResourceLockKind.WORKER, max_wait=60) as lock:
            began = time.monotonic()
            await write_documents(path, IDENTITY, [document(f"new{number}", f"text {number}")], fence=lock)
            held.append((began, time.monotonic()))
    await Database.close()
    print(json.dumps(held), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
