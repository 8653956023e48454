"""The API over HTTP: how much it takes in, and how soon it answers on large tables.

    python -m benchmarks.api --database sqlite|postgres [--json] [--quick] [--only MEASURE ...]

A server of default settings runs in a process of its own, without a worker, so that the API alone is measured. Each
measure has a database, a server and a folder to itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Final
from urllib.parse import urlencode

from benchmarks import processes, workflows
from benchmarks.databases import Server, open_fresh
from benchmarks.driving import copy_runs
from benchmarks.http_server import FORM, Connection, ServerProcess, serving
from benchmarks.measuring import Measure, run_benchmark
from benchmarks.report import Line, Result, Target, parse_options, show
from benchmarks.rows import SOURCE, fill_documents, hash_of, uri_of
from soliplex.ingester.lib.wf import operations

DOCUMENT: Final = 2_000
"""Bytes in a document of the upload measure."""
BLOCK: Final = 1 << 20
MULTIPART: Final = "multipart/form-data; boundary=x"

LINES: Final = (
    Line("documents/s uploaded, {connections} connections", "upload_documents_per_second", Target(400)),
    Line("… processor time of the server, µs a document", "upload_python_us"),
    Line("documents/s started, {started:,} in a call", "start_workflows_documents_per_second", Target(5_000)),
    Line("source status of {uris:,} URIs, s", "source_status_100k_seconds"),
    Line("status of a batch of {steps:,} steps, ms", "batch_status_ms"),
    Line("more memory while {large_mib:,} MiB are uploaded, MiB", "rss_growth_2gb_upload_mib"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything."""

    samples: int = 5
    connections: int = 8
    uploads: int = 1_000
    """Documents in a sample."""
    started: int = 20_000
    uris: int = 100_000
    steps: int = 1_000_000
    questions: int = 30
    large_mib: int = 2_048


FULL: Final = Sizes()
QUICK: Final = Sizes(samples=2, uploads=400, started=5_000, steps=100_000, questions=15, large_mib=256)


@asynccontextmanager
async def _served(server: Server) -> AsyncGenerator[tuple[ServerProcess, int]]:
    """A fresh database, a server on it, and a batch."""
    async with open_fresh(server) as url, serving(url) as process:
        async with process.connected() as connection:
            made = await connection.post("/batch/", {"source": SOURCE, "name": "benchmark"})
        yield process, made.expect(201)["batch_id"]


async def upload_documents_per_second(server: Server, sizes: Sizes) -> Result:
    """Small documents, one after the other on each connection."""
    rates: list[float] = []
    async with _served(server) as (process, batch_id), AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(process.connected()) for _ in range(sizes.connections)]
        await _upload(lines, batch_id, first=0, count=10 * sizes.connections)
        before = processes.processor_seconds(process.pid)
        for sample in range(1, sizes.samples + 1):
            began = time.perf_counter()
            await _upload(lines, batch_id, first=sample * sizes.uploads + 1_000, count=sizes.uploads)
            rates.append(sizes.uploads / (time.perf_counter() - began))
        used = processes.processor_seconds(process.pid) - before
    return {
        "upload_documents_per_second": median(rates),
        "upload_documents_per_second_samples": rates,
        "upload_python_us": used / (sizes.uploads * sizes.samples) * 1e6,
    }


async def _upload(lines: list[Connection], batch_id: int, *, first: int, count: int) -> None:
    numbers = iter(range(first, first + count))

    async def send(line: Connection) -> None:
        for number in numbers:
            content = f"{number} ".encode().ljust(DOCUMENT, b"x")
            body = _fields(batch_id, f"/{number}.txt") + content + _END
            (await line.send("POST", "/document/ingest-document", body, MULTIPART)).expect(201)

    async with asyncio.TaskGroup() as group:
        for line in lines:
            group.create_task(send(line))


def _fields(batch_id: int, uri: str) -> bytes:
    given = {"source_uri": uri, "source": SOURCE, "batch_id": batch_id}
    fields = [f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{given[name]}\r\n' for name in given]
    return ("".join(fields) + '--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n').encode()


_END: Final = b"\r\n--x--\r\n"


async def start_workflows_documents_per_second(server: Server, sizes: Sizes) -> Result:
    """Documents of a batch for which a five-step workflow is started, in one call."""
    rates: list[float] = []
    async with _served(server) as (process, batch_id):
        await fill_documents(batch_id, sizes.started)
        form = {"batch_id": batch_id, "workflow_definition_id": "test_wf", "param_id": "test_base"}
        async with process.connected() as connection:
            for _ in range(sizes.samples):
                began = time.perf_counter()
                told = (await connection.post("/batch/start-workflows", form)).expect(201)
                rates.append(told["workflows"] / (time.perf_counter() - began))
    name = "start_workflows_documents_per_second"
    return {name: median(rates), f"{name}_samples": rates}


async def source_status_100k_seconds(server: Server, sizes: Sizes) -> Result:
    """What a client has against what is stored: half of it unchanged, a quarter changed, a quarter new."""
    seconds: list[float] = []
    async with _served(server) as (process, batch_id):
        await fill_documents(batch_id, sizes.uris * 3 // 4)
        changed = range(sizes.uris // 2, sizes.uris)
        hashes = {uri_of(number): hash_of(number + 1 if number in changed else number) for number in range(sizes.uris)}
        body = urlencode({"source": SOURCE, "hashes": json.dumps(hashes)}).encode()
        async with process.connected() as connection:
            for _ in range(sizes.samples):
                began = time.perf_counter()
                answer = await connection.send("POST", "/source-status", body, FORM)
                seconds.append(time.perf_counter() - began)
                _expect_statuses(answer.expect(200), sizes.uris)
    return {"source_status_100k_seconds": median(seconds), "source_status_100k_seconds_samples": seconds}


def _expect_statuses(told: dict[str, Any], uris: int) -> None:
    """A time counts only if the answer is right."""
    matched = sum(row["status"] == "matched" for row in told.values())
    if (len(told), matched) != (uris, uris // 2):
        raise RuntimeError(f"{matched} of {len(told)} URIs are matched, where half of {uris} should be")


async def batch_status_ms(server: Server, sizes: Sizes) -> Result:
    """The status of a batch, when its runs have so many steps."""
    milliseconds: list[float] = []
    async with _served(server) as (process, batch_id):
        created = await operations.create_run_group(
            workflows.FIVE_STEPS, None, [operations.NewRun(doc_id=hash_of(0))], batch_id=batch_id
        )
        runs = sizes.steps // len(workflows.FIVE_STEPS.steps)
        await copy_runs(created, runs - 1)
        async with process.connected() as connection:
            for _ in range(sizes.questions):
                began = time.perf_counter()
                answer = await connection.get(f"/batch/status?batch_id={batch_id}")
                milliseconds.append((time.perf_counter() - began) * 1000)
                if answer.expect(200)["workflow_count"] != {"PENDING": runs}:
                    raise RuntimeError(f"the batch should have {runs} runs: {answer.body[:300]!r}")
    return {"batch_status_ms": median(milliseconds), "batch_status_ms_samples": milliseconds}


async def rss_growth_2gb_upload_mib(server: Server, sizes: Sizes) -> Result:
    """How much more memory the server takes, at most, while a large document comes in."""
    async with _served(server) as (process, batch_id), process.connected() as connection:
        await _upload_large(connection, batch_id, 16)
        before = processes.memory_mib(process.pid)
        processes.forget_most_memory(process.pid)
        began = time.perf_counter()
        await _upload_large(connection, batch_id, sizes.large_mib)
        rate = sizes.large_mib / (time.perf_counter() - began)
        growth = processes.memory_mib(process.pid, "VmHWM") - before
    return {"rss_growth_2gb_upload_mib": max(0.0, growth), "large_upload_mib_per_second": rate}


async def _upload_large(connection: Connection, batch_id: int, mebibytes: int) -> None:
    head = _fields(batch_id, f"/{mebibytes}.bin")

    async def blocks() -> AsyncIterator[bytes]:
        yield head
        block = os.urandom(BLOCK)
        for _ in range(mebibytes):
            yield block
        yield _END

    size = len(head) + mebibytes * BLOCK + len(_END)
    (await connection.stream("/document/ingest-document", size, blocks(), MULTIPART)).expect(201)


MEASURES: Final[dict[str, Measure[Sizes]]] = {
    "upload_documents_per_second": upload_documents_per_second,
    "start_workflows_documents_per_second": start_workflows_documents_per_second,
    "source_status_100k_seconds": source_status_100k_seconds,
    "batch_status_ms": batch_status_ms,
    "rss_growth_2gb_upload_mib": rss_growth_2gb_upload_mib,
}


def main() -> int:
    options = parse_options(__doc__ or "", MEASURES)
    workflows.register()
    result = run_benchmark("api", options, QUICK if options.quick else FULL, MEASURES)
    show(result, LINES, as_json=options.as_json)
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
