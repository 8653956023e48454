"""A receiver of traces on loopback, as OTLP has it over HTTP: protobuf, parsed by OpenTelemetry's own package."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, override

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE = 60.0


class Receiver:
    """What was received: the spans, and what their senders said of themselves."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[Any] = []
        self.services: set[str] = set()
        self._changed = threading.Condition()

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        with self._changed:
            for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.services |= {
                    each.value.string_value for each in sent.resource.attributes if each.key == "service.name"
                }
                self.spans += [span for scope in sent.scope_spans for span in scope.spans]
            self._changed.notify_all()

    def wait_until(self, has_all: Callable[[list[Any]], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: has_all(self.spans), PATIENCE), [span.name for span in self.spans]


@contextmanager
def receiving() -> Generator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.take(self.path, gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
            self.end_headers()

        @override
        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def facts_of(span: Any) -> dict[str, Any]:
    """The attributes of a span, by their names without `soliplex.`."""
    return {
        each.key.removeprefix("soliplex."): getattr(each.value, each.value.WhichOneof("value"))
        for each in span.attributes
    }
