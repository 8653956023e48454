"""What the peers' modules share. Runs in the peer's environment: the standard library only.

    python -m benchmarks.peers.NAME --url URL --workflows N --tasks N --starts N

prints one JSON object. With `--work` in place of the sizes it is an idle worker, whose handler reports its start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median, quantiles
from typing import Any, Protocol

STEPS = 5
"""Of a workflow, as in ours."""


class Peer(Protocol):
    """An engine, set up on a database."""

    longest_pause: float
    """Seconds between two samples of the latency, at most: the period with which it polls, if it does."""

    async def install(self) -> None:
        """Make its tables."""
        ...

    async def work_off_workflows(self, count: int) -> float | None:
        """Seconds from a worker's start until so many five-step workflows, enqueued before, are done.

        None: it has no workflows.
        """
        ...

    async def work_off_tasks(self, count: int) -> float:
        """As above, for tasks of one step."""
        ...

    async def work(self) -> None:
        """Be a worker until cancelled. Calls `say_started` when it is about to listen."""
        ...

    async def enqueue_report(self) -> None:
        """Enqueue a task whose handler calls `report_start`."""
        ...


def report_start() -> None:
    os.write(sys.stdout.fileno(), f"start {time.monotonic_ns()}\n".encode())


def say_started() -> None:
    os.write(sys.stdout.fileno(), b"started\n")


def main(make: Callable[[str], Peer]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--work", action="store_true")
    for size in ("workflows", "tasks", "starts"):
        parser.add_argument(f"--{size}", type=int, default=100)
    asked = parser.parse_args()
    url = asked.url.replace("+asyncpg", "").replace("+aiosqlite", "")
    if asked.work:
        asyncio.run(_work_while_wanted(make(url)))
    else:
        print(json.dumps(asyncio.run(_measure(make(url), asked))))


async def _work_while_wanted(peer: Peer) -> None:
    """Work until the standard input ends, which also happens when the benchmark dies."""
    working = asyncio.create_task(peer.work())
    await asyncio.to_thread(sys.stdin.read)
    working.cancel()
    # An engine's own threads may not end by themselves.
    os._exit(0)


async def _measure(peer: Peer, asked: argparse.Namespace) -> dict[str, Any]:
    await peer.install()
    measures: dict[str, Callable[[], Awaitable[Any]]] = {
        "steps_per_second": lambda: _rate(peer.work_off_workflows, asked.workflows, STEPS),
        "tasks_per_second": lambda: _rate(peer.work_off_tasks, asked.tasks, 1),
        "start_latency_ms": lambda: _start_latency(peer, asked),
    }
    sizes = {name: getattr(asked, name) for name in ("workflows", "tasks", "starts")}
    result: dict[str, Any] = {"failed": {}, "sizes": sizes}
    for name, measure in measures.items():
        try:
            result[name] = await measure()
        except Exception as exc:  # noqa: BLE001  a peer may raise anything; what else it does is still measured
            result["failed"][name] = f"{type(exc).__name__}: {exc}"
    return result


async def _rate(work_off: Callable[[int], Awaitable[float | None]], count: int, steps: int) -> float | None:
    await work_off(max(count // 50, 1))  # warm
    seconds = await work_off(count)
    return None if seconds is None else count * steps / seconds


async def _start_latency(peer: Peer, asked: argparse.Namespace) -> dict[str, float]:
    module = sys.modules["__main__"].__spec__
    assert module is not None
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module.name, f"--url={asked.url}", "--work"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        await _hear(worker, "started")
        await asyncio.sleep(1)
        await _delay(peer, worker)  # warm
        delays = [await _delay(peer, worker) for _ in range(asked.starts)]
    finally:
        worker.kill()
        await worker.wait()
    return {"p50": median(delays), "p95": quantiles(delays, n=20, method="inclusive")[-1]}


async def _delay(peer: Peer, worker: asyncio.subprocess.Process) -> float:
    await asyncio.sleep(random.uniform(0.02, peer.longest_pause))
    asked = time.monotonic_ns()
    await peer.enqueue_report()
    return (int(await _hear(worker, "start")) - asked) / 1e6


async def _hear(worker: asyncio.subprocess.Process, expected: str) -> str:
    assert worker.stdout is not None
    async with asyncio.timeout(30):
        said = (await worker.stdout.readline()).decode()
    word, _, rest = said.strip().partition(" ")
    if word != expected:
        raise RuntimeError(f"the worker should have said {expected!r}, but said {said!r}")
    return rest
