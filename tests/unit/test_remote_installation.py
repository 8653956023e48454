from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import httpx
import pytest

from soliplex.ingester.installation.local_files import LocalFile
from soliplex.ingester.installation.multipart import Form
from soliplex.ingester.installation.remote_installation import RemoteError, RemoteInstallation, open_remote
from soliplex.ingester.installation.values import FileRefusedError, Work
from soliplex.ingester.lib.http_statuses import PASSING

URL = "http://ingester.test"


class Answers:
    """Gives one answer after the other, and keeps the requests."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.bodies: list[bytes] = []
        self.told: list[str] = []

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.bodies.append(await request.aread())
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits are noted and not waited."""
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(RemoteInstallation.__init__, "__defaults__", (wait,))
    return waits


def ok(value: object = None) -> httpx.Response:
    return httpx.Response(200, json=value if value is not None else {"batch_id": None})


async def batches(answers: Answers, key: str | None = None) -> int | None:
    transport = httpx.MockTransport(answers)
    async with open_remote(URL, api_key=key, tell=answers.told.append, transport=transport) as target:
        await target.unfinished_batch("files", "docs")
        return await target.unfinished_batch("files", "docs")


async def test_a_server_that_is_busy_is_tried_again(instant: list[float]) -> None:
    answers = Answers(ok(), httpx.Response(503), httpx.Response(502), httpx.ConnectError("refused"), ok())
    assert await batches(answers) is None
    assert instant == [0.25, 0.5, 1.0]
    assert answers.told == [f"{URL}: cannot be reached; is the server running?; going on in 1 s"]


async def test_a_server_that_asks_to_wait_is_given_the_time(instant: list[float]) -> None:
    refusal = httpx.Response(429, headers={"Retry-After": "7"}, json={"error": "too many requests"})
    answers = Answers(ok(), refusal, ok())
    await batches(answers)
    assert instant == [7.0]
    assert answers.told == [f"{URL}: too many requests; going on in 7 s"]


@pytest.mark.parametrize("status", PASSING)
async def test_a_request_is_sent_again_where_the_answer_may_pass(instant: list[float], status: int) -> None:
    answers = Answers(ok(), httpx.Response(status), ok())
    await batches(answers)
    assert instant == [0.25]


def caused_by(cause: OSError) -> httpx.ConnectError:
    error = httpx.ConnectError(str(cause))
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (httpx.ConnectError("refused"), "cannot be reached; is the server running?"),
        (caused_by(socket.gaierror(-2, "no name")), "cannot be reached: there is no host of this name"),
        (caused_by(ssl.SSLError(1, "wrong")), "cannot be reached: it does not speak https there; is http:// meant?"),
        (httpx.ConnectTimeout("late"), "does not answer"),
        (httpx.RemoteProtocolError("broken"), "the connection broke (broken)"),
        (httpx.Response(401, json={"error": "no key"}), "asks for a key, or for another one; set API_KEY"),
        (httpx.Response(403, json={"error": "forbidden", "detail": "no such door"}), "forbidden: no such door"),
        (httpx.Response(500, text="<html>"), "500 Internal Server Error"),
        (httpx.Response(200, html="<html>"), "answers /batch/unfinished with text/html, not JSON: is it an ingester?"),
    ],
)
async def test_what_cannot_pass_is_told_at_once(
    answer: httpx.Response | Exception, problem: str, instant: list[float]
) -> None:
    with pytest.raises(RemoteError) as refused:
        await batches(Answers(answer))
    assert str(refused.value) == f"{URL}: {problem}"
    assert instant == []


@pytest.mark.parametrize("status", [404, 405])
async def test_a_server_that_cannot_name_the_unfinished_batch_is_asked_for_its_batches(status: int) -> None:
    def batch(number: int, name: str, completed: str | None) -> dict[str, object]:
        return {"id": number, "source": "files", "name": name, "completed_date": completed}

    unknown = {"error": "not found", "detail": "no such route"}
    listed = [batch(1, "docs", "2026-01-01"), batch(2, "docs", None), batch(3, "other", None)]
    answers = Answers(*[httpx.Response(status, json=unknown), ok(listed)] * 2)
    assert await batches(answers) == 2
    assert [request.url.path for request in answers.requests[:2]] == ["/api/v1/batch/unfinished", "/api/v1/batch/"]


async def test_the_key_is_sent() -> None:
    answers = Answers(ok(), ok())
    await batches(answers, key="secret")
    assert {request.headers["Authorization"] for request in answers.requests} == {"Bearer secret"}


async def test_an_upload_that_breaks_is_sent_again_from_its_beginning(tmp_path: Path, instant: list[float]) -> None:
    path = tmp_path / "a.md"
    path.write_text("text")
    sent: list[int] = []
    answers = Answers(ok({}), httpx.Response(503), httpx.Response(201, json={}))
    async with open_remote(URL, tell=answers.told.append, transport=httpx.MockTransport(answers)) as target:
        await target.standings("files", {"/a": "x"})
        await target.upload(LocalFile(path, 4), source="files", batch_id=1, work=Work(), sent=sent.append)
    assert answers.bodies[1] == answers.bodies[2]
    assert len(answers.bodies[2]) == int(answers.requests[2].headers["Content-Length"])
    assert sent == [4, 4]


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_what_only_the_file_is_at_fault_for_refuses_the_file(tmp_path: Path, status: int) -> None:
    path = tmp_path / "a.md"
    path.write_text("text")
    answers = Answers(httpx.Response(status, json={"error": "too large"}))
    async with open_remote(URL, tell=answers.told.append, transport=httpx.MockTransport(answers)) as target:
        with pytest.raises(FileRefusedError, match=r"^too large$"):
            await target.upload(LocalFile(path, 4), source="files", batch_id=1, work=Work(), sent=_ignore)


async def test_a_form_is_as_long_as_it_says_and_its_names_are_quoted() -> None:
    form = Form({"source": "zoë"}, 'quo"te\r\n.md', 4, boundary="B")
    body = b"".join([piece async for piece in form.body(_pieces([b"te", b"xt"]))])
    assert len(body) == int(form.headers["Content-Length"])
    assert body.decode().split("\r\n") == [
        "--B",
        'Content-Disposition: form-data; name="source"',
        "",
        "zoë",
        "--B",
        'Content-Disposition: form-data; name="file"; filename="quo%22te%0D%0A.md"',
        "Content-Type: application/octet-stream",
        "",
        "text",
        "--B--",
        "",
    ]


async def _pieces(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _ignore(_: int) -> None:
    pass
