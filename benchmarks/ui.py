"""The web UI: what a browser loads first, what its overview asks of the server, and what open pages cost it.

    python -m benchmarks.ui --database sqlite|postgres [--json] [--quick] [--only MEASURE ...]

The server runs in a process of its own, without a worker, on a database of steps that ended long ago, of some that
ended within the last hour, and of some that are still to be done.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from typing import Any, Final

import sqlalchemy as sa

from benchmarks import processes, workflows
from benchmarks.databases import Server, open_fresh, settle
from benchmarks.driving import copy_runs
from benchmarks.http_server import Connection, ServerProcess, serving
from benchmarks.measuring import Measure, run_benchmark
from benchmarks.report import Line, Result, Target, parse_options, show
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.work import Completed
from soliplex.ingester.server.sharing import SHARE
from soliplex.ingester.server.ui.built_files import START, BuiltFile, find

LINES: Final = (
    Line("first load of the overview, kB gzip", "first_load_kb", Target(150, at_most=True)),
    Line("overview with {steps:,} steps, ms of the server", "overview_ms", Target(300, at_most=True)),
    Line("… the slowest of its requests, ms", "slowest_request_ms"),
    Line("{pages} open pages when nothing happens, % of a core", "idle_core_percent", Target(5, at_most=True)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything."""

    steps: int = 1_000_000
    recent: int = 50_000
    """Steps among them that ended within the last hour, and as many that are to be done."""
    questions: int = 11
    pages: int = 200
    idle_seconds: float = 20.0


FULL: Final = Sizes()
QUICK: Final = Sizes(steps=100_000, recent=10_000, questions=5, pages=50, idle_seconds=5.0)

OVERVIEW: Final = (
    "/workflow/status/running?page=1&rows_per_page=8",
    "/workflow/queues",
    "/workflow/waiting",
    "/workflow/failures/by-cause?interval=day",
    "/stats/workers",
    "/locks",
    "/workflow/run-groups?status=RUNNING&page=1&rows_per_page=8",
    "/workflow/run-groups?status=PENDING&page=1&rows_per_page=8",
    "/workflow/run-groups?page=1&rows_per_page=8",
    "/stats/throughput/steps?interval=hour",
)
"""What the page asks each time that it loads; and the ETA of each active group."""


async def first_load_kb(_server: Server, _sizes: Sizes) -> Result:
    """What a browser takes over the wire before the overview is there, without what it loads from the API."""
    chunks: dict[str, dict[str, Any]] = json.loads(_file("manifest.json").content)
    names = {START, *_needed_by(chunks, "index.html"), *_needed_by(chunks, "src/pages/Overview.svelte")}
    files = [_file(name) for name in names]
    return {"first_load_kb": sum(len(each.compressed or each.content) for each in files) / 1000, "files": len(files)}


def _needed_by(chunks: dict[str, dict[str, Any]], name: str) -> set[str]:
    """The files of a chunk, and of all that it imports at once."""
    chunk = chunks[name]
    found = {chunk["file"], *chunk.get("css", ()), *chunk.get("assets", ())}
    return found.union(*(_needed_by(chunks, each) for each in chunk.get("imports", ()) if each != name))


def _file(name: str) -> BuiltFile:
    found = find(name)
    if found is None:
        raise RuntimeError(f"{name} of the web UI is not built: run `make setup`")
    return found


@asynccontextmanager
async def _filled(server: Server, sizes: Sizes) -> AsyncGenerator[ServerProcess]:
    """A server on a database of so many steps."""
    per_run = len(workflows.FIVE_STEPS.steps)
    async with open_fresh(server) as url:
        await _fill_ended((sizes.steps - 2 * sizes.recent) // per_run, ago=timedelta(days=10))
        await _fill_ended(sizes.recent // per_run, ago=timedelta(minutes=10))
        await _fill_open(sizes.recent // per_run)
        async with serving(url) as process:
            yield process


async def _fill_ended(runs: int, *, ago: timedelta) -> None:
    created = await operations.create_run_group(workflows.FIVE_STEPS, None, [operations.NewRun(doc_id="sha256-0")])
    while claimed := (await operations.claim_steps("benchmark", operations.Pool(), 1)).steps:
        await operations.finish_steps(
            [Completed(step_id=each.id, run_id=each.run_id, lease=each.lease) for each in claimed]
        )
    await copy_runs(created, runs - 1, are_open=False)
    facts = {"group_id": created.group_id, "at": utcnow() - ago}
    async with Database.engine().begin() as connection:
        for statement in _DATED:
            await connection.execute(
                sa.text(statement).bindparams(sa.bindparam("at", type_=sa.DateTime(timezone=True))), facts
            )
    await settle()


async def _fill_open(runs: int) -> None:
    created = await operations.create_run_group(workflows.FIVE_STEPS, None, [operations.NewRun(doc_id="sha256-0")])
    await copy_runs(created, runs - 1)


_OF_GROUP: Final = "workflow_run_id IN (SELECT id FROM workflowrun WHERE run_group_id = :group_id)"
_DATED: Final = (
    f"UPDATE runstep SET start_date = :at, completed_date = :at, status_date = :at WHERE {_OF_GROUP}",
    "UPDATE workflowrun SET start_date = :at, completed_date = :at, status_date = :at WHERE run_group_id = :group_id",
    "UPDATE rungroup SET start_date = :at, completed_date = :at, status_date = :at WHERE id = :group_id",
    "UPDATE lifecyclehistory SET start_date = :at WHERE run_group_id = :group_id",
)


async def overview_ms(server: Server, sizes: Sizes) -> Result:
    """All that the overview asks, one after the other: what the server needs, whatever browsers do side by side."""
    wholes: list[float] = []
    slowest: dict[str, list[float]] = {}
    async with _filled(server, sizes) as process, process.connected() as connection:
        for _ in range(sizes.questions):
            took = await _ask_overview(connection)
            # What took long is shared with who asks soon after: each sample is to be worked out.
            await asyncio.sleep((SHARE + 1) * max(took.values()) / 1000)
            wholes.append(sum(took.values()))
            for path, milliseconds in took.items():
                slowest.setdefault(path, []).append(milliseconds)
    medians = {path: round(median(values), 1) for path, values in slowest.items()}
    return {
        "overview_ms": median(wholes),
        "overview_ms_samples": wholes,
        "slowest_request_ms": max(medians.values()),
        "requests_ms": medians,
    }


async def _ask_overview(connection: Connection) -> dict[str, float]:
    took: dict[str, float] = {}
    groups: list[int] = []
    for path in OVERVIEW:
        began = time.perf_counter()
        told = (await connection.get(path)).expect(200)
        took[path] = (time.perf_counter() - began) * 1000
        if "status=PENDING" in path or "status=RUNNING" in path:
            groups += [group["id"] for group in told["items"]]
    if not groups:
        raise RuntimeError("there should be an active group")
    for group in groups:
        began = time.perf_counter()
        (await connection.get(f"/workflow/run-groups/{group}/eta")).expect(200)
        took["…/eta"] = took.get("…/eta", 0.0) + (time.perf_counter() - began) * 1000
    return took


async def idle_core_percent(server: Server, sizes: Sizes) -> Result:
    """Pages that are open and seen, each with its stream of changes, while nothing changes."""
    async with _filled(server, sizes) as process, AsyncExitStack() as stack:
        for _ in range(sizes.pages):
            await _follow(process, stack)
        await asyncio.sleep(2)
        before, began = processes.processor_seconds(process.pid), time.perf_counter()
        await asyncio.sleep(sizes.idle_seconds)
        used = processes.processor_seconds(process.pid) - before
    return {"idle_core_percent": 100 * used / (time.perf_counter() - began)}


async def _follow(process: ServerProcess, stack: AsyncExitStack) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    stack.callback(writer.close)
    writer.write(b"GET /api/v1/events?kind=pulse HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readuntil(b"event: pulse")


MEASURES: Final[dict[str, Measure[Sizes]]] = {
    "first_load_kb": first_load_kb,
    "overview_ms": overview_ms,
    "idle_core_percent": idle_core_percent,
}


def main() -> int:
    options = parse_options(__doc__ or "", MEASURES)
    workflows.register()
    result = run_benchmark("ui", options, QUICK if options.quick else FULL, MEASURES)
    show(result, LINES, as_json=options.as_json)
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
