"""A worker that ingests one text, as a process of its own, and says how much memory each step took.

    python -m tests.support.giant_main URL FOLDER BYTES

The last line on standard output is the JSON of a `Told`. A short text goes first, so that what is imported and loaded
only once does not count.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

# Before pydantic, as in conftest.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "logfire-plugin")

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.runner import Worker
from tests.support.engine import rows_of
from tests.support.faults import resident_mib
from tests.support.pipelines import outcomes, registry_with, start

PARAMS: Final = """
  parse: {parser: fast}
  chunk: {chunk_size: 64}
  embed: {provider: wordllama}
  store: {data_dir: library}
"""
WORDS: Final = ("river", "stone", "lantern", "harbour", "winter", "letter", "orchard", "copper", "signal", "meadow")


@dataclass(frozen=True, slots=True)
class Told:
    """What was measured."""

    chunks: int
    before_mib: float
    """Resident before the text came."""
    peak_mib: dict[str, float]
    """The most while each step was under way."""
    seconds: dict[str, float]


def text_of(size: int) -> bytes:
    """A text of so many bytes, in paragraphs of which no two are alike."""
    dice = random.Random(size)
    made, total = list[bytes](), 0
    while total < size:
        made.append((" ".join(dice.choices(WORDS, k=40)) + ".\n\n").encode())
        total += len(made[-1])
    return b"".join(made)[:size]


class Watch:
    """Looks at the memory of this process many times a second."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = []
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            self._seen.append((time.time(), resident_mib()))
            time.sleep(0.02)

    def most_between(self, start: float, end: float) -> float:
        around = [mib for (at, mib), (until, _) in pairwise(self._seen) if until >= start and at <= end]
        return max(around)


async def measure(folder: Path, size: int) -> Told:
    use_registry(registry_with(folder / "params", PARAMS))
    worker = Worker()
    await worker.start()
    try:
        await outcomes(await start({"short.txt": b"A short text goes first.\n"}, "batch"), within=600)
        before, watch = resident_mib(), Watch()
        batch_id = await start({"long.txt": text_of(size)}, "batch")
        ended = await outcomes(batch_id, within=3600)
        assert ended["long.txt"].status == "COMPLETED", ended
        rows = await rows_of(
            """SELECT s.workflow_step_name, s.start_date, s.completed_date, CAST(s.output AS text) FROM runstep s
                 JOIN workflowrun r ON r.id = s.workflow_run_id WHERE r.batch_id = :id""",
            id=batch_id,
        )
    finally:
        await worker.stop()
    times = {name: tuple(_times(begun, done)) for name, begun, done, _ in rows}
    return Told(
        chunks=next(json.loads(output)["chunks"] for name, _, _, output in rows if name == "store"),
        before_mib=before,
        peak_mib={name: watch.most_between(begun, done) for name, (begun, done) in times.items()},
        seconds={name: done - begun for name, (begun, done) in times.items()},
    )


def _times(*dates: object) -> Iterator[float]:
    for date in dates:
        parsed = date if isinstance(date, datetime) else datetime.fromisoformat(str(date))
        yield (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


async def main(url: str, folder: str, size: str) -> None:
    logging.disable(logging.WARNING)
    await Database.initialize(url)
    try:
        print(json.dumps(asdict(await measure(Path(folder), int(size)))))  # noqa: T201  what it is there for
    finally:
        await Database.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
