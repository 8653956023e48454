"""A document that takes longer than its step may: it is read in a cheaper way, or fails with words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, override

import pytest

from soliplex.ingester.lib import scratch
from soliplex.ingester.lib.models import RunStep, loaded
from soliplex.ingester.lib.parsing import ParseFailedError, ParseOptions
from soliplex.ingester.lib.parsing.errors import Harm, OutOfTimeError, ParserGaveUpError
from soliplex.ingester.lib.parsing.parsed_files import About
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.workflow import parsing
from soliplex.ingester.lib.workflow.document_processes import Share, StepTime, tried_twice

SHORT = 3.0
"""Seconds of a step, of which the first way has three fifths and any other a fifth: much more than it needs here."""


class Pool(ProcessPool):
    """A pool in which some parsers never come to an end."""

    def __init__(self, *endless: str, pages: int = 1) -> None:
        super().__init__()
        self.asked: list[tuple[str, Any]] = []
        self._endless = endless
        self._pages = pages

    @override
    async def run(self, method: str, arguments: Mapping[str, Any], *, timeout: float | None = None) -> object:
        assert method == scratch.CALL
        method, arguments = arguments["function"], arguments["arguments"]
        if method == parsing._COUNT:
            return self._pages
        if method == parsing._MERGE:
            warnings = tuple(warning for _, about in arguments["parts"] for warning in about.warnings)
            return About(self._pages, 5, None, warnings)
        self.asked.append((arguments["parser"], arguments["options"].page_range))
        if arguments["parser"] in self._endless:
            await asyncio.Event().wait()
        return About(1, 5, None)


def job(pool: ProcessPool, path: Path, seconds: float | None = SHORT) -> parsing._Parsing:
    path.touch()
    return parsing._Parsing(path, "application/pdf", parsing._Means(pool, StepTime(seconds)))


async def test_what_the_first_way_does_not_read_in_time_is_read_as_bare_text(tmp_path: Path) -> None:
    pool = Pool("local")
    _, about = await job(pool, tmp_path / "a.pdf").parse(ParseOptions(parser="local"))
    assert [parser for parser, _ in pool.asked] == ["local", "fast"]
    assert about.warnings == ("the document stalled its parser; its text is without structure",)


async def test_parts_that_have_not_begun_by_then_are_read_as_bare_text_at_once(tmp_path: Path) -> None:
    pool = Pool("local", pages=40)
    _, about = await job(pool, tmp_path / "a.pdf").parse_in_parts(ParseOptions(parser="local", pages_per_part=2))
    assert sum(parser == "fast" for parser, _ in pool.asked) == 20
    assert sum(parser == "local" for parser, _ in pool.asked) < 20
    assert len(about.warnings) == 20


async def test_what_no_way_reads_in_time_is_told_with_the_setting_that_helps(tmp_path: Path) -> None:
    reading = job(Pool("local", "fast"), tmp_path / "a.pdf")
    with pytest.raises(OutOfTimeError, match=r"3 seconds; raise STEP_TIMEOUT_SECONDS or the step's `timeout`") as told:
        await reading.parse(ParseOptions(parser="local"))
    assert told.value.harm is Harm.STALLED


async def test_a_step_without_a_limit_has_all_the_time(tmp_path: Path) -> None:
    pool = Pool()
    await job(pool, tmp_path / "a.pdf", None).parse(ParseOptions(parser="local"))
    assert [parser for parser, _ in pool.asked] == ["local"]


async def test_a_timeout_of_somebody_else_stays_what_it_is() -> None:
    async def read() -> None:
        async with StepTime(60).within(Share.FIRST_WAY):
            raise TimeoutError("the connection")

    with pytest.raises(TimeoutError, match="the connection"):
        await read()


@pytest.mark.parametrize(
    ("before", "raised"),
    [(None, ParserGaveUpError), ("StepTimeout", ParserGaveUpError), ("ParserGaveUpError", ParseFailedError)],
)
@pytest.mark.parametrize("failure", [OutOfTimeError(9), ParserGaveUpError("nothing came of it")])
def test_it_is_tried_twice_and_no_more(before: str | None, raised: type[Exception], failure: Exception) -> None:
    step = loaded(RunStep, {"status_meta": {"error_type": before} if before else None})

    def read() -> None:
        with tried_twice(step):
            raise failure

    with pytest.raises(raised, match=str(failure).split(";")[0]) as told:
        read()
    assert type(told.value) is raised
