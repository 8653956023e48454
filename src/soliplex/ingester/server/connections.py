"""What a connection may ask of the server before it is known who sends: bytes, headers and time of a request's head.

Of uvicorn's two readers of HTTP, h11 bounds the size of a head and httptools, which is several times faster, bounds
nothing. This is httptools' one with bounds: a head of too many bytes or headers is answered 431, one that comes too
slowly 408, and the connection ends. How slowly a body may come, `bodies.py` decides; here ends only the connection of a
client that has its answer and goes on sending a body.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import TimerHandle
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, cast, override

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from soliplex.ingester.lib.config import ServerSettings
from soliplex.ingester.lib.wiring import current_wiring
from soliplex.ingester.server import metrics
from soliplex.ingester.server.bodies import DRAINED
from soliplex.ingester.server.errors import error_answer

_log = logging.getLogger(__name__)

MOST_HEADERS: Final = 100
LINGER: Final = 5.0
"""Seconds for which a refused connection stays half open. A client that is cut off at once may not see the answer."""


class _HeadTooLargeError(Exception):
    """Stops the parser; the caller that feeds the parser then answers."""


class BoundedConnection(HttpToolsProtocol):
    """One connection, with bounds on the heads of its requests.

    Every callback of the parser (`on_...`) runs within `data_received`.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # The settings of the application that is served: there may be others in the process.
        settings: ServerSettings = self.app_state.get("settings") or current_wiring().settings
        self._limit = int(settings.request_head_limit)
        self._head_timeout = settings.request_head_timeout_seconds
        self._body_timeout = settings.request_body_timeout_seconds
        self._timer: TimerHandle | None = None
        self._is_in_head = True
        self._head_size = 0
        """Bytes of the URL and of the headers that are complete."""
        self._header_count = 0
        self._beside_bodies = 0
        """Bytes since the last one of a body or the last end of a request: a head, chunk extensions, or trailers."""
        self._too_large = False
        self._refused = False
        self._discarded = 0

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  as uvicorn's own
        super().connection_made(transport)
        self._start_timer(self._head_timeout, self._on_slow_head)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        if self._refused:
            self._discard(data)
            return
        while data and not self._refused:
            # A head is read up to its limit, whatever came with it: the parser keeps what it has read of a header.
            piece = data[: self._limit - self._beside_bodies + 1] if self._is_in_head else data
            data = data[len(piece) :]
            self._beside_bodies += len(piece)
            super().data_received(piece)
            if self._beside_bodies > self._limit and not self._refused:
                self._refuse_large_head()
        if self._is_in_head and self._beside_bodies and self._timer is None and not self._refused:
            self._start_timer(self._head_timeout, self._on_slow_head)

    @override
    def on_message_begin(self) -> None:
        self._head_size = self._header_count = 0
        super().on_message_begin()

    @override
    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        self._count(len(name) + len(value))
        # Trailers are not added to the headers, which have been judged by then.
        if self._is_in_head:
            super().on_header(name, value)

    @override
    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._stop_timer()
        super().on_headers_complete()

    @override
    def on_body(self, body: bytes) -> None:
        self._beside_bodies = 0
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        self._is_in_head = True
        self._beside_bodies = 0
        super().on_message_complete()
        if self._is_answered():
            # The answer came before the end of the body, whose bytes have stopped the timer of an idle connection.
            self._stop_timer()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_answered() and not self._is_in_head and not self.transport.is_closing():
            self._start_timer(self._body_timeout, self.transport.close)

    @override
    def send_400_response(self, msg: str) -> None:
        """Answer a request that the parser could not read."""
        if self._too_large:
            self._refuse_large_head()
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, "this is not an HTTP request that can be read")

    @override
    def _unsupported_upgrade_warning(self) -> None:
        """Nothing is upgraded here, and a client that asks for it is answered in HTTP: nobody needs to be warned."""

    def _count(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self._limit or self._header_count > MOST_HEADERS:
            self._too_large = True
            raise _HeadTooLargeError

    def _is_answered(self) -> bool:
        """Whether nobody works on a request of this connection."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # there is no cycle before the first request
        return not self.pipeline and (cycle is None or cycle.response_complete)

    def _on_slow_head(self) -> None:
        self._timer = None
        if not self._is_answered():
            # The head of the next request came while this one is worked on; its time begins after the answer.
            self._start_timer(self._head_timeout, self._on_slow_head)
        elif self._beside_bodies:
            problem = f"the head of the request has not come within {self._head_timeout:g} seconds"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, problem)
        else:
            self.transport.close()

    def _refuse_large_head(self) -> None:
        problem = f"the head of the request is larger than {self._limit} bytes or has more than {MOST_HEADERS} headers"
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, problem)

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        """Answer, and end the connection."""
        self._refused = True
        self._stop_timer()
        self._unset_keepalive_if_required()
        metrics.count_request("-", "unknown", status, 0.0)
        _log.info("refused a connection with %d: %s", status, problem, extra={"client": (self.client or ("-",))[0]})
        if not self._is_answered():
            if self.pipeline or self.cycle.response_started:
                # Another answer is under way: this one would stand in the middle of it.
                self.transport.abort()
                return
            # The application waits for the rest of the body: it is told that the client is gone, and answers no more.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(_answer(status, problem))
        self.transport.write_eof()
        self._start_timer(LINGER, self.transport.abort)

    def _discard(self, data: bytes) -> None:
        self._discarded += len(data)
        if self._discarded > DRAINED:
            self.transport.abort()

    def _start_timer(self, seconds: float, action: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, action)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _answer(status: HTTPStatus, problem: str) -> bytes:
    answer = error_answer(status, problem, headers={"Connection": "close"})
    headers = [name + b": " + value + b"\r\n" for name, value in answer.raw_headers]
    return b"".join((STATUS_LINE[status], *headers, b"\r\n", answer.body))
