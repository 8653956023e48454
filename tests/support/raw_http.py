"""HTTP by hand, over a socket: for clients that no library would behave like."""

from __future__ import annotations

import select
import socket
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from tests.support.serving import PATIENCE, Server

BOUNDARY = "xyz"


@contextmanager
def connected(server: Server) -> Generator[socket.socket]:
    parts = urlsplit(server.url)
    assert parts.hostname
    assert parts.port
    with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE) as connection:
        yield connection


def head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", "")).encode()


def upload_head(path: str, length: int) -> bytes:
    kind = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
    return head("POST", path, kind, f"Content-Length: {length}")


def upload_body(content: bytes, **fields: object) -> bytes:
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    opening = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    return "".join((*parts, opening)).encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()


def has_something(connection: socket.socket, within: float) -> bool:
    """Whether the server says something, or hangs up, within so many seconds."""
    return bool(select.select([connection], [], [], within)[0])


def send_slowly(connection: socket.socket, pieces: Iterable[bytes], *, every: float) -> None:
    """Send the pieces with pauses, until the server has had enough."""
    for piece in pieces:
        if has_something(connection, every):
            return
        connection.sendall(piece)


def answer(connection: socket.socket) -> bytes:
    """All that the server says until it hangs up, politely or while more is sent to it."""
    said = bytearray()
    with suppress(ConnectionResetError, BrokenPipeError):
        while block := connection.recv(1 << 16):
            said += block
    return bytes(said)


def one_answer(connection: socket.socket) -> bytes:
    """An answer in JSON, on a connection that stays open."""
    said = bytearray()
    while not said.endswith(b"}") and (block := connection.recv(1 << 16)):
        said += block
    return bytes(said)


def status(said: bytes) -> int:
    """The status of an answer; 0 if the server hung up without a word."""
    return int(said.split(b" ", 2)[1]) if said else 0
