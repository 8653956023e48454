"""`si-cli worker`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Final

import typer

from soliplex.ingester.cli.output import echo

if TYPE_CHECKING:
    import asyncio

    from soliplex.ingester.lib.config import Settings
    from soliplex.ingester.lib.wf.runner import Worker

STOPPED_AT_ONCE: Final = "stopped at once; other workers take over what was running"


async def worker(
    *,
    stop_timeout: Annotated[
        float | None, typer.Option(help="Seconds to let running steps finish. Default: WORKER_STOP_TIMEOUT_SECONDS.")
    ] = None,
    drain: Annotated[bool, typer.Option("--drain", help="Stop when nothing is left to do.")] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port of /metrics and /health; 0: a free one. Default: WORKER_METRICS_PORT."
        ),
    ] = None,
) -> None:
    """Run a worker until it is told to stop.

    SIGINT (Ctrl-C) or SIGTERM stops it gracefully: running steps may finish, the rest goes back. A second signal stops
    it at once. A worker that cannot go on says why and ends with exit code 1, so that a supervisor starts another.
    """
    from soliplex.ingester.cli.shared_metrics import counted_together
    from soliplex.ingester.lib.config import get_settings

    settings = get_settings()
    port = settings.worker_metrics_port if metrics_port is None else metrics_port
    with nullcontext() if port is None else counted_together():
        await _work(settings, stop_timeout, port, drain=drain)


async def _work(settings: Settings, stop_timeout: float | None, port: int | None, *, drain: bool) -> None:
    import asyncio

    from soliplex.ingester.cli.database import PATIENCE_OF_WORKERS, open_database
    from soliplex.ingester.cli.stop_signals import stopping_on_signals
    from soliplex.ingester.lib.config import log_warnings
    from soliplex.ingester.lib.logs import configure_logging
    from soliplex.ingester.lib.scratch import lend_folder
    from soliplex.ingester.lib.wf.runner import at_work

    configure_logging(settings, takes_printed=True)
    log_warnings()
    lend_folder()
    with stopping_on_signals(parting=STOPPED_AT_ONCE) as stopping:
        seconds = stop_timeout if stop_timeout is not None else settings.worker_stop_timeout_seconds
        async with (
            open_database(patience=PATIENCE_OF_WORKERS, stopping=stopping),
            at_work(_worker(port), stop_timeout=seconds) as running,
            _shown(running, settings, port),
        ):
            pools = ", ".join(f"{name}={size}" for name, size in running.config.consumers.items())
            echo(f"worker {running.id} is running ({pools}); Ctrl-C stops it")
            watcher = asyncio.create_task(_stop_when_drained(stopping)) if drain else None
            await stopping.wait()
            echo("stopping: running steps may finish, the rest goes back")
            if watcher is not None:
                watcher.cancel()
    echo("stopped")


def _worker(port: int | None) -> Worker:
    from soliplex.ingester.lib.wf.metrics import PrometheusMetrics
    from soliplex.ingester.lib.wf.runner import Worker

    return Worker(metrics=None if port is None else PrometheusMetrics())


@asynccontextmanager
async def _shown(worker: Worker, settings: Settings, port: int | None) -> AsyncGenerator[None]:
    """Let the worker be asked for its metrics and its health, where a port is given."""
    if port is None:
        yield
        return
    from soliplex.ingester.lib.wiring import current_wiring
    from soliplex.ingester.server.watching import shown

    async with shown(worker, current_wiring(), settings.worker_metrics_host, port) as address:
        echo(f"metrics at {address}/metrics")
        yield


async def _stop_when_drained(stopping: asyncio.Event) -> None:
    import asyncio

    from soliplex.ingester.lib.wf.operations.groups import anything_left

    while await anything_left():  # noqa: ASYNC110  what is waited for happens in other processes too
        await asyncio.sleep(0.2)
    stopping.set()
