"""What is slow the first time is not done on the event loop: seen in fresh processes, since it happens once in each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

OPENING = """
import asyncio, sys
from soliplex.ingester.lib.rag.opening import EmbeddingIdentity, open_rag
from tests.support.loop_watch import loops_watched

async def main():
    async with open_rag(sys.argv[1], EmbeddingIdentity("sentence-transformers", "words", 8), create=True):
        pass

with loops_watched() as watch:
    asyncio.run(main())
print(chr(10).join(watch.held))
"""


def test_the_first_opening_of_a_rag_database_leaves_the_loop_free(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", OPENING, str(tmp_path / "db.lancedb")],
        capture_output=True,
        check=True,
        text=True,
        env=os.environ | {"DATA_DIR": str(tmp_path)},
    )
    assert ended.stdout.strip() == ""
