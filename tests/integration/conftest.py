"""What tests of the pipeline share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.runner import Worker


@pytest.fixture
async def worker(database: type[Database]) -> AsyncIterator[Worker]:
    worker = Worker()
    await worker.start()
    yield worker
    await worker.stop()
