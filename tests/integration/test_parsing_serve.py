"""docling-serve over HTTP: several servers, what fails on them, and what that teaches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from soliplex.ingester.lib.parsing import ParseFailedError, ParseOptions, ParserUnavailableError
from soliplex.ingester.lib.parsing.errors import ParserGaveUpError
from soliplex.ingester.lib.parsing.serve import DoclingServeParser
from soliplex.ingester.lib.parsing.serve.serve_tasks import _content
from soliplex.ingester.lib.parsing.serve.servers import FAILURES_TO_OPEN, Servers, ServerTrouble
from soliplex.ingester.lib.wf.errors import PermanentError
from tests.support.docling_serve import FakeDoclingServe
from tests.support.files import pdf
from tests.support.serving import free_port

PDF = "application/pdf"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def server() -> AsyncIterator[FakeDoclingServe]:
    async with FakeDoclingServe() as running:
        yield running


@pytest.fixture
async def other() -> AsyncIterator[FakeDoclingServe]:
    async with FakeDoclingServe() as running:
        yield running


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "sha256-00"
    path.write_bytes(pdf("Some text of a document."))
    return path


def parser_on(*urls: str, timeout: float = 30, clock: Clock | None = None) -> DoclingServeParser:
    servers = Servers(urls, clock=clock, random=lambda: 0.0) if clock else None
    return DoclingServeParser(urls, timeout=timeout, servers=servers)


async def parse(parser: DoclingServeParser, document: Path) -> str:
    return (await parser.parse(document, mime_type=PDF, options=ParseOptions())).markdown


async def test_a_document_gets_the_name_of_its_kind_and_both_formats(server: FakeDoclingServe, document: Path) -> None:
    assert "Some text" in await parse(parser_on(server.url), document)
    assert server.submitted == [{"name": "document.pdf", "to_formats": ["json", "md"], "do_ocr": True}]


async def test_documents_are_spread_over_the_servers(
    server: FakeDoclingServe, other: FakeDoclingServe, document: Path
) -> None:
    parser = parser_on(server.url, other.url)
    await asyncio.gather(*(parse(parser, document) for _ in range(6)))
    assert len(server.submitted) == len(other.submitted) == 3


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_another_server_takes_what_one_cannot_do(
    server: FakeDoclingServe, other: FakeDoclingServe, document: Path, status: int
) -> None:
    server.fail_with = status
    assert "Some text" in await parse(parser_on(server.url, other.url), document)
    assert (len(server.submitted), len(other.submitted)) == (0, 1)


async def test_a_dead_server_is_passed_over(server: FakeDoclingServe, document: Path) -> None:
    dead = f"http://127.0.0.1:{free_port()}/v1"
    assert "Some text" in await parse(parser_on(dead, server.url), document)


async def test_a_task_that_a_server_forgot_is_given_to_another(
    server: FakeDoclingServe, other: FakeDoclingServe, document: Path
) -> None:
    server.forgets = True
    assert "Some text" in await parse(parser_on(server.url, other.url), document)


async def test_when_no_server_works_the_step_may_be_tried_again(server: FakeDoclingServe, document: Path) -> None:
    server.fail_with = 500
    with pytest.raises(ParserUnavailableError, match="HTTP 500") as failed:
        await parse(parser_on(server.url), document)
    assert not isinstance(failed.value, PermanentError)


async def test_a_task_that_failed_may_be_tried_again(server: FakeDoclingServe, document: Path) -> None:
    server.fails_tasks = True
    with pytest.raises(ParserGaveUpError, match="its task failed"):
        await parse(parser_on(server.url), document)


async def test_a_document_that_cannot_be_read_is_not_tried_again(
    server: FakeDoclingServe, other: FakeDoclingServe, document: Path
) -> None:
    document.write_bytes(b"%PDF-1.4 broken")  # noqa: ASYNC240  a few bytes
    with pytest.raises(ParseFailedError, match=r"docling-serve could not read the PDF.*; open it in a viewer"):
        await parse(parser_on(server.url, other.url), document)
    assert len(server.submitted) + len(other.submitted) == 1


async def test_a_refusal_is_told_with_its_reason(server: FakeDoclingServe, document: Path) -> None:
    server.fail_with = 422
    with pytest.raises(ParseFailedError, match=r"HTTP 422.*told to fail"):
        await parse(parser_on(server.url), document)


@pytest.mark.parametrize("text", ["<html>", "[]"])
def test_an_answer_that_is_no_docling_serve_s_is_told(text: str) -> None:
    answer = httpx.Response(200, text=text, request=httpx.Request("GET", "http://host/v1"))
    with pytest.raises(ServerTrouble, match="is it a docling-serve"):
        _content(answer, what="a task")


async def test_a_wrong_address_is_told(server: FakeDoclingServe, document: Path) -> None:
    with pytest.raises(ParserUnavailableError, match="HTTP 404 instead of a new task"):
        await parse(parser_on(f"{server.url}/nowhere"), document)


async def test_a_document_that_takes_too_long_is_given_up(server: FakeDoclingServe, document: Path) -> None:
    server.hold = asyncio.Event()
    with pytest.raises(ParserUnavailableError, match=r"within 0\.3 s; raise DOCLING_HTTP_TIMEOUT"):
        await parse(parser_on(server.url, timeout=0.3), document)


async def test_a_server_that_works_and_never_finishes_has_given_up(server: FakeDoclingServe, document: Path) -> None:
    server.never_finishes = True
    with pytest.raises(ParserGaveUpError, match=r"within 0\.3 s; raise DOCLING_HTTP_TIMEOUT"):
        await parse(parser_on(server.url, timeout=0.3), document)


async def test_a_document_whose_tasks_fail_does_not_keep_others_from_a_server(
    server: FakeDoclingServe, document: Path
) -> None:
    parser = parser_on(server.url, clock=Clock())
    server.fails_tasks = True
    for _ in range(FAILURES_TO_OPEN + 1):
        with pytest.raises(ParserGaveUpError):
            await parse(parser, document)
    server.fails_tasks = False
    assert "Some text" in await parse(parser, document)


async def test_a_server_that_failed_several_times_is_left_alone_for_a_while(
    server: FakeDoclingServe, document: Path
) -> None:
    clock = Clock()
    parser = parser_on(server.url, clock=clock)
    server.fail_with = 500
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(ParserUnavailableError):
            await parse(parser, document)
    server.fail_with = None
    with pytest.raises(ParserUnavailableError, match="the next try is due in 5 s"):
        await parse(parser, document)
    assert server.submitted == []
    clock.now = 5.0
    assert "Some text" in await parse(parser, document)


def fail(servers: Servers) -> None:
    with pytest.raises(ServerTrouble), servers.using(servers.choose()):
        raise ServerTrouble


def test_pauses_grow_while_a_server_stays_down() -> None:
    clock = Clock()
    servers = Servers(["a"], clock=clock, random=lambda: 0.0)
    for _ in range(FAILURES_TO_OPEN):
        fail(servers)
    clock.now = 5.0
    fail(servers)
    with pytest.raises(ParserUnavailableError, match="due in 10 s"):
        servers.choose()


def test_one_call_tries_whether_a_server_has_recovered() -> None:
    clock = Clock()
    servers = Servers(["a"], clock=clock, random=lambda: 0.0)
    for _ in range(FAILURES_TO_OPEN):
        fail(servers)
    clock.now = 5.0
    with servers.using(servers.choose()), pytest.raises(ParserUnavailableError):
        servers.choose()
    assert servers.choose().url == "a"


def test_a_document_that_fails_for_itself_says_nothing_against_the_server() -> None:
    servers = Servers(["a"])
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(ParseFailedError), servers.using(servers.choose()):
            raise ParseFailedError("bad document")
    assert servers.choose().url == "a"
