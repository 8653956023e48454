"""Clients that send too slowly, too large a head, or nothing at all: each is ended, and keeps no other waiting."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.raw_http import (
    answer,
    connected,
    has_something,
    head,
    one_answer,
    send_slowly,
    status,
    upload_body,
    upload_head,
)
from tests.support.serving import PATIENCE, Server, serving

API = "/api/v1"
UPLOAD = f"{API}/document/ingest-document"
MIB = 1 << 20
ENOUGH = 100_000
"""Pieces that a client sends at most before a test gives up."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slow-clients")


@pytest.fixture(scope="module")
def impatient(folder: Path) -> Iterator[Server]:
    """A server that waits for seconds only."""
    environment = {
        "REQUEST_HEAD_LIMIT": "16KiB",
        "REQUEST_HEAD_TIMEOUT_SECONDS": "1",
        "REQUEST_BODY_TIMEOUT_SECONDS": "2",
        "REQUEST_BODY_MIN_RATE": "100",
    }
    with serving(folder, "--no-worker", environment=environment) as server:
        yield server


@pytest.fixture(scope="module")
def patient(folder: Path) -> Iterator[Server]:
    """A server with two slots for uploads, whose clients may take all day."""
    environment = {"REQUEST_BODY_TIMEOUT_SECONDS": "3600", "INGEST_QUEUE_CONCURRENCY": "2"}
    with serving(folder / "patient", "--no-worker", environment=environment) as server:
        yield server


def new_batch(server: Server) -> int:
    with server.client() as client:
        return client.post(f"{API}/batch/", data={"source": "shelf", "name": "Tuesday"}).json()["batch_id"]


def half_an_upload(server: Server, connection: socket.socket, size: int) -> None:
    body = upload_body(b"x" * size, source_uri="/stalled", source="shelf", batch_id=new_batch(server))
    connection.sendall(upload_head(UPLOAD, len(body)) + body[: len(body) // 2])


def upload(server: Server, uri: str) -> int:
    fields = {"source_uri": uri, "source": "shelf", "batch_id": str(new_batch(server))}
    with server.client() as client:
        return client.post(UPLOAD, data=fields, files={"file": ("a.txt", b"quick")}).status_code


def files_of(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and "file_store" in path.parts}


@pytest.mark.parametrize("size", [100, 4 * MIB], ids=["held", "spooled"])
def test_uploads_that_stall_keep_no_other_waiting(patient: Server, size: int) -> None:
    with ExitStack() as stalled:
        for _ in range(6):
            half_an_upload(patient, stalled.enter_context(connected(patient)), size)
        assert [upload(patient, f"/quick-{size}-{number}") for number in range(3)] == [201] * 3


def test_an_upload_that_dripped_for_a_while_holds_no_slot(patient: Server) -> None:
    with ExitStack() as dripping:
        connections = [dripping.enter_context(connected(patient)) for _ in range(4)]
        for connection in connections:
            half_an_upload(patient, connection, 1000)
        for _ in range(20):
            for connection in connections:
                send_slowly(connection, [b"x"], every=0.01)
        assert upload(patient, "/beside-drips") == 201


def test_a_stalled_upload_is_answered_408_and_leaves_nothing_behind(impatient: Server, folder: Path) -> None:
    before = files_of(folder)
    with connected(impatient) as connection:
        half_an_upload(impatient, connection, 8 * MIB)
        said = answer(connection)
    assert status(said) == 408
    assert b"too slowly" in said
    assert files_of(folder) == before


def test_an_upload_that_only_drips_is_answered_408(impatient: Server) -> None:
    with connected(impatient) as connection:
        half_an_upload(impatient, connection, ENOUGH)
        send_slowly(connection, itertools.repeat(b"x", ENOUGH), every=0.05)
        assert status(answer(connection)) == 408


def test_a_slow_and_steady_upload_succeeds(impatient: Server) -> None:
    body = upload_body(b"x" * 20_000, source_uri="/steady", source="shelf", batch_id=new_batch(impatient))
    pieces = (body[start : start + 500] for start in range(0, len(body), 500))
    with connected(impatient) as connection:
        connection.sendall(upload_head(UPLOAD, len(body)))
        send_slowly(connection, pieces, every=0.1)  # for longer than any one pause may last
        assert status(one_answer(connection)) == 201


def test_any_body_that_stalls_is_answered_408(impatient: Server) -> None:
    form = "Content-Type: application/x-www-form-urlencoded"
    with connected(impatient) as connection:
        connection.sendall(head("POST", f"{API}/batch/", form, "Content-Length: 100") + b"source=shelf&name=")
        assert status(answer(connection)) == 408


@pytest.mark.parametrize(
    "sent",
    [
        [head("GET", "/health", *(f"X-{number}: a" for number in range(200)))],
        [head("GET", f"/{'a' * 20_000}")],
        itertools.chain([head("GET", "/health", "X-Long: ")[:-4]], itertools.repeat(b"a" * MIB, 8)),
        itertools.chain([head("GET", "/health")[:-2]], itertools.repeat(b"X-Many: aaaaaaa\r\n" * 60_000, 8)),
    ],
    ids=["many headers", "a long address", "one header without end", "headers without end"],
)
def test_a_head_that_is_too_large_is_answered_431_before_anyone_is_asked(
    impatient: Server, sent: Iterator[bytes]
) -> None:
    with connected(impatient) as connection:
        for piece in sent:
            connection.sendall(piece)
        said = answer(connection)
    assert status(said) == 431
    assert b'"error"' in said


def test_a_large_head_in_one_piece_with_another_request_is_refused_too(impatient: Server) -> None:
    with connected(impatient) as connection:
        connection.sendall(head("GET", "/health") + head("GET", "/health", *(f"X-{n}: {'a' * 60}" for n in range(99))))
        said = answer(connection)
    assert b" 200 " in said
    with connected(impatient) as connection:
        connection.sendall(head("GET", "/health", f"X-Long: {'a' * 17_000}") + head("GET", "/health"))
        assert status(answer(connection)) == 431


def test_trailers_without_end_are_refused(impatient: Server) -> None:
    chunked = head(
        "POST", f"{API}/batch/", "Content-Type: application/x-www-form-urlencoded", "Transfer-Encoding: chunked"
    )
    with connected(impatient) as connection:
        connection.sendall(chunked + b"3\r\na=b\r\n0\r\nX-Long: ")
        for _ in range(8):
            if has_something(connection, 0):
                break
            connection.sendall(b"a" * 100_000)
        assert status(answer(connection)) == 431


def test_a_head_that_drips_is_answered_408(impatient: Server) -> None:
    with connected(impatient) as connection:
        send_slowly(connection, [head("GET", "/health")[:-2], *itertools.repeat(b"X", 1000)], every=0.05)
        assert status(answer(connection)) == 408


def test_the_second_head_of_a_connection_is_timed_as_well(impatient: Server) -> None:
    with connected(impatient) as connection:
        connection.sendall(head("GET", "/health"))
        assert status(one_answer(connection)) == 200
        send_slowly(
            connection, itertools.chain([head("GET", "/health")[:-2]], itertools.repeat(b"X", 1000)), every=0.05
        )
        assert status(answer(connection)) == 408


def test_a_connection_that_sends_nothing_is_closed_without_a_word(impatient: Server) -> None:
    with connected(impatient) as connection:
        assert answer(connection) == b""


def test_a_client_that_has_its_answer_and_goes_on_sending_is_cut_off(impatient: Server) -> None:
    with connected(impatient) as connection:
        connection.sendall(head("GET", "/health", f"Content-Length: {ENOUGH}"))
        assert status(one_answer(connection)) == 200
        send_slowly(connection, itertools.repeat(b"x", ENOUGH), every=0.05)
        assert answer(connection) == b""


def test_what_is_no_http_is_answered_400_in_the_shape_of_all_errors(impatient: Server) -> None:
    with connected(impatient) as connection:
        connection.sendall(b"HELO there\r\n\r\n")
        said = answer(connection)
    assert status(said) == 400
    assert b'{"error":' in said


def test_an_idle_connection_is_closed_and_many_of_them_hurt_nobody(impatient: Server) -> None:
    with ExitStack() as idle, impatient.client() as client:
        connections = [idle.enter_context(connected(impatient)) for _ in range(500)]
        assert client.get("/health").status_code == 200
        for connection in connections:
            assert has_something(connection, PATIENCE)
            assert connection.recv(1) == b""
