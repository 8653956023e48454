"""Work done apart: its limits, and its end when nobody waits for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from soliplex.ingester.lib.operations.apart import Apart, BusyError, TooMuchWorkError, kept_apart, run_apart
from soliplex.ingester.server.errors import status_of
from soliplex.ingester.server.leaving import unless_client_leaves

ADD = "tests.support.handlers_for_isolation.add"
FOR_EVER = "tests.support.handlers_for_isolation.loop_forever_noting_its_process"


async def until(path: Path) -> int:
    """The number that another process writes into the file."""
    async with asyncio.timeout(100):
        while not (written := _text(path)):  # noqa: ASYNC110  another process writes it
            await asyncio.sleep(0.01)
    return int(written)


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def is_alive(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text("utf-8").rpartition(")")[2].split()[0] != "Z"


async def test_work_is_done_with_and_without_a_process_that_is_kept() -> None:
    assert await run_apart("adding", ADD, {"a": 1, "b": 2}) == 3
    async with kept_apart():
        assert [await run_apart("adding", ADD, {"a": 1, "b": number}) for number in range(3)] == [1, 2, 3]


async def test_work_that_takes_too_long_is_ended_with_a_reason(tmp_path: Path) -> None:
    apart = Apart(longest=0.5)
    with pytest.raises(TooMuchWorkError, match=r"comparing takes longer than 0\.5 seconds") as caught:
        await apart.run("comparing", FOR_EVER, {"path": str(tmp_path / "pid")})
    assert status_of(caught.value) == 422
    await apart.close()


async def test_more_than_a_few_do_not_wait(tmp_path: Path) -> None:
    apart = Apart(most_waiting=1)
    working = asyncio.create_task(apart.run("comparing", FOR_EVER, {"path": str(tmp_path / "pid")}))
    await until(tmp_path / "pid")
    waiting = asyncio.create_task(apart.run("comparing", ADD, {"a": 1, "b": 1}))
    await asyncio.sleep(0)
    with pytest.raises(BusyError) as caught:
        await apart.run("comparing", ADD, {"a": 1, "b": 1})
    assert status_of(caught.value) == 503
    working.cancel()
    assert await waiting == 2
    await apart.close()


async def test_work_ends_when_the_client_goes_away(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "method": "GET", "headers": []}, receive)
    async with kept_apart():
        work = run_apart("comparing", FOR_EVER, {"path": str(tmp_path / "pid")})
        asked = asyncio.create_task(unless_client_leaves(request, work))
        process = await until(tmp_path / "pid")
        assert is_alive(process)
        gone.set()
        with pytest.raises(HTTPException, match="499"):
            await asked
        assert not is_alive(process)
        assert await run_apart("adding", ADD, {"a": 1, "b": 2}) == 3
