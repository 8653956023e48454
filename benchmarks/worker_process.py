"""A worker in a process of its own.

    python -m benchmarks.worker_process URL [--slots N]

It loads everything and says `loaded`; on a line from the standard input it starts the worker and says `started`. It
stops when its input ends, which also happens when the benchmark dies. Handlers report on the same output.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self

from benchmarks import workflows
from benchmarks.handlers import BLOCK
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.runner import CATCH_ALL, Worker, WorkerConfig

ROOT: Final = Path(__file__).parent.parent
PATIENCE: Final = 30.0
"""Seconds to wait for anything a worker is to say."""


class WorkerProcess:
    """The process as the benchmark sees it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    @asynccontextmanager
    async def load(cls, url: str, *, slots: int | None = None, block: bool = False) -> AsyncGenerator[Self]:
        """Make the process; it loads while the caller goes on. Its handlers never end if they block."""
        # Set in many container images; then every process would compile what it imports anew.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.worker_process", url, *(["--slots", str(slots)] if slots else [])),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env=environment | ({BLOCK: "1"} if block else {}),
        )
        worker = cls(process)
        try:
            yield worker
        finally:
            await worker._stop()

    async def start(self) -> None:
        """Start the worker; returns when it works."""
        assert self._process.stdin is not None
        await self._hear("loaded")
        self._process.stdin.write(b"start\n")
        await self._hear("started")

    async def next_start(self) -> int:
        """When the next handler was called, in nanoseconds of the monotonic clock."""
        return int(await self._hear("start"))

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)

    async def _hear(self, expected: str) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            said = (await self._process.stdout.readline()).decode()
        word, _, rest = said.strip().partition(" ")
        if word != expected:
            raise RuntimeError(f"the worker's process should have said {expected!r}, but said {said!r}")
        return rest

    async def _stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(PATIENCE):
                await self._process.communicate()
        finally:
            if self._process.returncode is None:
                self._process.kill()
                await self._process.wait()


async def work(url: str, slots: int | None) -> None:
    """Be the process."""
    workflows.register()
    await Database.initialize(url)
    worker = Worker(WorkerConfig(consumers={CATCH_ALL: slots}) if slots else None)
    await asyncio.to_thread(_say_and_wait, "loaded")
    await worker.start()
    await asyncio.to_thread(_say_and_wait, "started")
    await worker.stop(timeout=1)
    await Database.close()


def _say_and_wait(word: str) -> None:
    print(word, flush=True)
    sys.stdin.readline()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--slots", type=int)
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(work(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
