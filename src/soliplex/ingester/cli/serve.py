"""`si-cli serve`."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from soliplex.ingester.cli.shared_metrics import counted_together

if TYPE_CHECKING:
    import socket

    from fastapi import FastAPI

    from soliplex.ingester.lib.config import Settings


_HOST = "SOLIPLEX_SERVED_HOST"
_BEHIND_PROXY = "SOLIPLEX_SERVED_BEHIND_PROXY"
_SEVERAL = "SOLIPLEX_SERVED_BY_SEVERAL"  # server/metrics.py reads it


def serve(
    host: Annotated[str, typer.Option("--host", "-h", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    *,
    worker: Annotated[bool, typer.Option("--worker/--no-worker", help="Work off steps in the server itself.")] = True,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Server processes, each with its worker.")] = 1,
    reload: Annotated[bool, typer.Option("--reload", help="Start anew when the source changes.")] = False,
    uds: Annotated[Path | None, typer.Option("--uds", help="Unix socket to listen on, in place of a port.")] = None,
    proxy_headers: Annotated[
        bool, typer.Option("--proxy-headers/--no-proxy-headers", help="Believe X-Forwarded-For, -Proto and -Host.")
    ] = False,
    forwarded_allow_ips: Annotated[
        str | None, typer.Option(help="Proxies to believe, by address; * for all. Default: 127.0.0.1.")
    ] = None,
    root_path: Annotated[str, typer.Option(help="Path under which a proxy shows the server.")] = "",
) -> None:
    """Run the HTTP server, and in the same process a worker.

    SIGINT (Ctrl-C) or SIGTERM stops it gracefully: requests are answered to their end, running steps may finish, the
    rest goes back. A second signal stops it at once.
    """
    if reload and workers > 1:
        raise typer.BadParameter("--reload is for one process: leave out --workers")
    if uds is None:
        _check_address(host, port)
    import uvicorn

    from soliplex.ingester.lib.config import get_settings

    settings = get_settings()  # a wrong setting is told here, once, and not by every process
    _prepare(settings)
    with counted_together(), told_to_processes(host, proxy_headers=proxy_headers, count=workers), _ending_well():
        uvicorn.run(
            f"{__name__}:{'app_with_worker' if worker else 'app_without_worker'}",
            factory=True,
            host=host,
            port=port,
            uds=str(uds) if uds else None,
            loop="asyncio",  # as `si-cli worker`: what the worker does must not depend on where it runs
            http="soliplex.ingester.server.connections:BoundedConnection",  # by name: each process imports it
            ws="none",
            workers=workers,
            reload=reload,
            proxy_headers=proxy_headers,
            forwarded_allow_ips=forwarded_allow_ips,
            root_path=root_path,
            server_header=False,
            access_log=False,  # the application's own has request ids
            log_config=None,
            timeout_graceful_shutdown=max(1, int(settings.worker_stop_timeout_seconds)),
        )


def app_with_worker() -> FastAPI:
    """The application of a server process that works off steps too."""
    return _app(with_worker=True)


def app_without_worker() -> FastAPI:
    """The application of a server process beside workers of their own."""
    return _app(with_worker=False)


def _app(*, with_worker: bool) -> FastAPI:
    from soliplex.ingester.lib.config import get_settings
    from soliplex.ingester.lib.logs import configure_logging
    from soliplex.ingester.lib.rag.opening import import_early
    from soliplex.ingester.lib.scratch import lend_folder
    from soliplex.ingester.server import create_app
    from soliplex.ingester.server.sites import Served

    settings = get_settings()
    configure_logging(settings, takes_printed=True)
    lend_folder()
    if settings.do_rag:
        import_early()  # searches need it too, not only a worker: a later import would stop the event loop
    served = Served(os.environ.get(_HOST), behind_proxy=_BEHIND_PROXY in os.environ)
    app = create_app(with_worker=with_worker, served=served)
    app.openapi()  # made now: made for the first request, it would keep all other requests waiting
    return app


@contextmanager
def told_to_processes(host: str, *, proxy_headers: bool, count: int = 1) -> Generator[None]:
    """What the applications must know of the command line. They are made in processes that get no arguments."""
    told = {_HOST: host, **({_BEHIND_PROXY: "1"} if proxy_headers else {}), **({_SEVERAL: "1"} if count > 1 else {})}
    os.environ.update(told)
    try:
        yield
    finally:
        for name in told:
            del os.environ[name]


def _check_address(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on, before a worker has begun: uvicorn looks when all else runs."""
    import errno
    import socket

    troubles: list[OSError | None]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        troubles = [_trouble_with(socket.socket(each[0], each[1], each[2]), each[4]) for each in found]
    except OSError as error:
        troubles = [error]
    for trouble in filter(None, troubles):
        # A name may have an IPv6 address, too, where the machine has none.
        if trouble.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT} or None not in troubles:
            raise typer.BadParameter(
                f"cannot listen on {host}, port {port} ({trouble.strerror}): choose others by --host and --port"
            )


def _trouble_with(probe: socket.socket, address: tuple[str | int | bytes, ...]) -> OSError | None:
    """What keeps a socket from listening there."""
    import socket

    with probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            return error
    return None


def _prepare(settings: Settings) -> None:
    """Bring the schema up to date, before several processes would do so at once."""
    import asyncio

    from soliplex.ingester.lib.config import log_warnings
    from soliplex.ingester.lib.logs import configure_logging
    from soliplex.ingester.lib.models import Database
    from soliplex.ingester.lib.models.troubles import wait_for_writer
    from soliplex.ingester.lib.wf.tracing import check_tracing

    configure_logging(settings, takes_printed=True)
    log_warnings()
    check_tracing(settings)

    async def open_once() -> None:
        await Database.initialize(settings.doc_db_url)
        url = Database.engine().url
        await Database.close()
        # The first thing a server does is to write its worker's row; what keeps it from that is told in a sentence.
        await asyncio.to_thread(wait_for_writer, url, settings.sqlite_busy_timeout_seconds)

    asyncio.run(open_once())


@contextmanager
def _ending_well() -> Generator[None]:
    """Let a SIGTERM that was obeyed end in exit code 0: the server sends it to itself again when all is done.

    It is 1 where the server stopped by itself, because its worker could not go on.
    """
    import signal
    import sys

    def end(*_: object) -> None:
        from soliplex.ingester.server.lifespan import has_lost_a_worker

        sys.exit(1 if has_lost_a_worker() else 0)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
