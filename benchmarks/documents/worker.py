"""`si-cli worker`, which knows one embedding provider more."""

from __future__ import annotations

import asyncio

from benchmarks.documents.instant import know_instant
from soliplex.ingester.cli.worker import worker

if __name__ == "__main__":
    know_instant()
    asyncio.run(worker(stop_timeout=1))
