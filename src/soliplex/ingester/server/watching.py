"""What a worker of its own shows of itself over HTTP: health and metrics, as a server does, and nothing else.

Its routes follow the rules of the server's: names of hosts, keys, bounds on heads. Requests are answered on the event
loop that the worker works on, so an answer also shows that this loop is not stuck.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import override

import uvicorn
from fastapi import FastAPI

from soliplex.ingester import __version__
from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.lib.wiring import Wiring
from soliplex.ingester.server import health, metrics
from soliplex.ingester.server.connections import BoundedConnection
from soliplex.ingester.server.errors import install_error_answers
from soliplex.ingester.server.metrics import loop_delay_measured
from soliplex.ingester.server.middleware import install_middleware
from soliplex.ingester.server.sites import Served

_LONGEST_ANSWER = 2
"""Seconds that a request under way has when the worker ends."""


@asynccontextmanager
async def shown(worker: Worker, wiring: Wiring, host: str, port: int) -> AsyncGenerator[str]:
    """Answer for the worker for the time of the block; gives the address."""
    with _bound(host, port) as listening:
        config = uvicorn.Config(
            watching_app(worker, wiring, Served(host)),
            http=BoundedConnection,
            ws="none",
            lifespan="off",
            server_header=False,
            access_log=False,
            log_config=None,
            timeout_graceful_shutdown=_LONGEST_ANSWER,
        )
        server = _Server(config)
        async with loop_delay_measured(), asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve([listening]))
            try:
                yield _address(listening)
            finally:
                server.should_exit = True


def watching_app(worker: Worker, wiring: Wiring, served: Served) -> FastAPI:
    """The application that answers for a worker."""
    app = FastAPI(title="Worker of Soliplex Ingester", version=__version__, openapi_url=None)
    app.state.wiring, app.state.settings, app.state.worker = wiring, wiring.settings, worker
    for router in (health.router, metrics.router):
        app.include_router(router)
    install_error_answers(app, debug=wiring.settings.debug)
    install_middleware(app, wiring, served)
    return app


class _Server(uvicorn.Server):
    @override
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to the worker."""
        yield


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as exc:
        problem = f"{host}:{port} cannot be listened on ({exc.strerror or exc})"
        raise ConfigurationError(
            "WORKER_METRICS_PORT", problem, "choose a free port, or an address of this machine"
        ) from exc


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
