"""Webhooks: how many a worker delivers to a healthy receiver, in the order of their streams.

    python -m benchmarks.webhooks --database sqlite|postgres [--json] [--quick]

The messages are enqueued before; one worker of default settings delivers them, to a receiver in a process of its own
that takes everything. All are signed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks.databases import Server, open_fresh
from benchmarks.measuring import Measure, run_benchmark
from benchmarks.report import Line, Result, Target, parse_options, show
from benchmarks.webhook_receiver import ReceiverProcess
from soliplex.ingester.lib.config import Settings, load_settings
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.webhooks import WEBHOOK_STEPS, NewMessage, Sending, enqueue, prepare_sending
from soliplex.ingester.lib.wf.operations.groups import anything_left
from soliplex.ingester.lib.wf.runner import Worker, WorkerConfig
from soliplex.ingester.lib.wiring import current_wiring

RATE: Final = "webhook_deliveries_per_second"
LINES: Final = (
    Line("webhooks/s delivered, {streams:,} streams of {messages}", RATE, Target(500)),
    Line("… that came out of order", "webhooks_out_of_order", Target(0, at_most=True)),
    Line("webhooks/s enqueued, each in a transaction", "webhooks_enqueued_per_second"),
)
SECRET: Final = "whsec_YSBrZXkgdGhhdCBpcyBubyBzZWNyZXQgYXQgYWxs"  # of a benchmark


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything."""

    samples: int = 5
    streams: int = 500
    messages: int = 4
    """In each stream."""


FULL: Final = Sizes()
QUICK: Final = Sizes(samples=2, streams=200)


async def measure(server: Server, sizes: Sizes = FULL) -> Result:
    """The rate of deliveries, the median of samples, each on a fresh database."""
    rates, enqueued, out_of_order = list[float](), list[float](), 0
    for _ in range(sizes.samples):
        async with open_fresh(server) as url, ReceiverProcess.start() as receiver:
            settings = load_settings(doc_db_url=url, allow_private_addresses=True, webhook_signing_secret=SECRET)
            enqueued.append(await _enqueue_all(settings, receiver.url, sizes))
            seconds = await _deliver_all(settings)
            told = await receiver.told()
        assert told["taken"] == sizes.streams * sizes.messages, told
        out_of_order += told["out_of_order"]
        rates.append(told["taken"] / seconds)
    return {
        RATE: median(rates),
        f"{RATE}_samples": rates,
        "webhooks_out_of_order": out_of_order,
        "webhooks_enqueued_per_second": median(enqueued),
    }


async def _enqueue_all(settings: Settings, url: str, sizes: Sizes) -> float:
    """Enqueue everything; gives how many a second."""
    sending = await prepare_sending(settings)
    began = time.perf_counter()
    for number in range(1, sizes.messages + 1):
        for stream in range(sizes.streams):
            await Database.transact(_enqueue(sending, url, f"job-{stream}", number))
    return sizes.messages * sizes.streams / (time.perf_counter() - began)


def _enqueue(sending: Sending, url: str, stream: str, number: int) -> Script[None]:
    body = {"stream": stream, "number": number, "segments": "x" * 1_000}
    yield from enqueue(sending, NewMessage(stream=stream, url=url, event_type="job.progress", body=body))


async def _deliver_all(settings: Settings) -> float:
    """Have one worker deliver everything; gives the seconds from its start to the end of the last run."""
    current_wiring().use(settings)
    worker = Worker(WorkerConfig(consumers={WEBHOOK_STEPS: settings.webhook_hosts_at_once}))
    began = time.perf_counter()
    await worker.start()
    try:
        while await anything_left():  # noqa: ASYNC110  the database is asked, which tells nobody of its changes
            await asyncio.sleep(0.02)
        return time.perf_counter() - began
    finally:
        await worker.stop()


MEASURES: Final[dict[str, Measure[Sizes]]] = {RATE: measure}


def main() -> int:
    options = parse_options(__doc__ or "", MEASURES)
    result = run_benchmark("webhooks", options, QUICK if options.quick else FULL, MEASURES)
    show(result, LINES, as_json=options.as_json)
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
