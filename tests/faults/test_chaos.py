"""A few seconds of what `make chaos` does for minutes: a whole installation in trouble, and what is true afterwards."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from tests.support.faults import ROOT

MINUTES = 0.1


@pytest.mark.sqlite
@pytest.mark.postgres
@pytest.mark.timeout(1800)
async def test_nothing_is_lost_or_doubled_in_any_store(tmp_path: Path) -> None:
    """On both databases by one process: most of its time are imports, which both then share."""
    seed = random.randrange(10**6)  # by the seed that pytest prints
    options = ("--minutes", str(MINUTES), "--seed", str(seed), "--keep", str(tmp_path / "kept"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos", *options),
        cwd=ROOT,
        env=os.environ.copy(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    words = said.decode()
    assert process.returncode == 0, words
    for database in ("SQLite", "PostgreSQL"):
        verdict = f"0 lost, 0 half-stored, 0 doubled, 0 stale, 0 different over {MINUTES:g} minutes on {database}"
        assert verdict in words
