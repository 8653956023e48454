"""A real server: `si-cli serve` in a process of its own, with real signals."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from tests.support.forked import PASSED_ON, start_of

PATIENCE = 400.0
# A client reads all certificates of the machine, though it speaks plain HTTP on loopback.
WITHOUT_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
PROGRAM = "from soliplex.ingester.cli import main; main()"
COMMAND = (sys.executable, "-c", PROGRAM, "serve")


@dataclass(frozen=True, slots=True)
class Server:
    """A server process, its address and its log."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path
    is_forked: bool = False

    def client(self, **options: object) -> httpx.Client:
        given = {"base_url": self.url, "timeout": PATIENCE, "verify": WITHOUT_CERTIFICATES, **options}
        return httpx.Client(**given)  # pyright: ignore[reportArgumentType]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop, and give its exit code."""
        self.signal(number)
        return self.process.wait(PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        assert not self.is_forked or number in PASSED_ON, f"start the server afresh, or {number.name} does not reach it"
        self.process.send_signal(number)

    @property
    def pid(self) -> int:
        assert not self.is_forked, "start the server afresh: this is another process's"
        return self.process.pid

    def lines(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines()


@contextmanager
def serving(
    folder: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    program: str = PROGRAM,
    afresh: bool = False,
) -> Generator[Server]:
    """A server that answers; whatever happens, it is gone afterwards.

    It is forked from a process that has made its imports, unless it is to be started afresh.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    log = folder / f"server-{port}.log"
    settings = {"DATA_DIR": str(folder / "data"), "PYDANTIC_DISABLE_PLUGINS": "logfire-plugin", **(environment or {})}
    python = [sys.executable, "-c"] if afresh else [start_of("python-c")]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*python, program, "serve", "--port", str(port), *options],
            stdout=output,
            stderr=output,
            env=os.environ | settings,
        )
    server = Server(process, f"http://127.0.0.1:{port}", log, is_forked=not afresh)
    try:
        _wait_until_it_answers(server)
        yield server
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_it_answers(server: Server) -> None:
    trying = Retrying(
        stop=stop_after_delay(PATIENCE),
        wait=wait_fixed(0.1),
        retry=retry_if_exception_type(httpx.TransportError),
        reraise=True,
    )
    with server.client() as client:
        for attempt in trying:
            with attempt:
                if server.process.poll() is not None:
                    raise AssertionError(f"the server ended:\n{server.log.read_text(encoding='utf-8')}")
                client.get("/health").raise_for_status()
