from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, override

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.lib.errors import IngesterError, NotFoundError
from soliplex.ingester.lib.wf.errors import (
    DefinitionError,
    HandlerCrashed,
    HandlerError,
    LeaseLost,
    MemoryLimitExceeded,
    StepTimeout,
    UnknownDefinitionError,
)
from soliplex.ingester.lib.wf.isolation import pickles, run_inline, stop_requested
from soliplex.ingester.lib.wf.isolation.wire import Frame, Kind, header_of, unpack

LONG = 120.0
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


# Inline


async def add_async(a: int, b: int) -> int:
    return a + b


def add(a: int, b: int) -> int:
    return a + b


def add_by_wrapper(a: int, b: int) -> Any:
    return add_async(a, b)


@pytest.mark.parametrize("seconds", [None, LONG])
@pytest.mark.parametrize("function", [add, add_async, add_by_wrapper])
async def test_a_handler_gets_its_arguments_and_gives_its_result(
    function: Callable[..., Any], seconds: float | None
) -> None:
    assert await run_inline(function, {"a": 1, "b": 2}, timeout=seconds) == 3


async def test_an_async_handler_runs_on_the_loop_and_in_the_task_of_the_caller() -> None:
    async def where() -> tuple[object, object]:
        return asyncio.get_running_loop(), asyncio.current_task()

    assert await run_inline(where, {}) == (asyncio.get_running_loop(), asyncio.current_task())


async def test_a_plain_handler_runs_in_a_thread_with_the_callers_context() -> None:
    variable.set("set")

    thread, value = await run_inline(lambda: (threading.current_thread(), variable.get()), {})

    assert thread is not threading.current_thread()
    assert value == "set"


async def test_an_async_handler_that_takes_too_long_is_cancelled() -> None:
    ended = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(StepTimeout, match=r"within 0\.01 seconds"):
        await run_inline(wait, {}, timeout=0.01)

    assert ended.is_set()


async def raise_timeout_error() -> None:
    raise TimeoutError("a server did not answer")


def raise_timeout_error_in_thread() -> None:
    raise TimeoutError("a server did not answer")


@pytest.mark.parametrize("function", [raise_timeout_error, raise_timeout_error_in_thread])
async def test_a_handlers_own_timeout_error_is_not_the_steps_timeout(function: Callable[..., Any]) -> None:
    with pytest.raises(TimeoutError, match="a server did not answer"):
        await run_inline(function, {}, timeout=LONG)


class Stubborn:
    """A plain handler that ends when it is asked to, and only then."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.look = threading.Event()
        self.saw_request = False
        self.ended = threading.Event()

    def __call__(self) -> None:
        self.started.set()
        self.look.wait(LONG)
        self.saw_request = stop_requested()
        self.ended.set()


@pytest.fixture
async def stubborn() -> AsyncIterator[Stubborn]:
    handler = Stubborn()
    yield handler
    handler.look.set()
    await asyncio.to_thread(handler.ended.wait, LONG)


async def test_waiting_for_a_thread_ends_with_the_timeout_and_the_thread_can_see_it(stubborn: Stubborn) -> None:
    with pytest.raises(StepTimeout):
        await run_inline(stubborn, {}, timeout=0.05)

    stubborn.look.set()
    assert await asyncio.to_thread(stubborn.ended.wait, LONG)
    assert stubborn.saw_request


async def test_waiting_for_a_thread_ends_with_cancellation_and_the_thread_can_see_it(stubborn: Stubborn) -> None:
    task = asyncio.create_task(run_inline(stubborn, {}))
    assert await asyncio.to_thread(stubborn.started.wait, LONG)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    stubborn.look.set()
    assert await asyncio.to_thread(stubborn.ended.wait, LONG)
    assert stubborn.saw_request


async def test_nobody_is_asked_to_stop_while_all_is_well() -> None:
    assert not stop_requested()
    assert not await run_inline(stop_requested, {})


# Frames


@given(st.binary(max_size=50), st.data())
def test_a_frame_is_complete_with_its_last_byte_and_not_before(body: bytes, data: st.DataObject) -> None:
    frame = Frame(Kind.CALL, body)
    whole = bytearray(header_of(frame) + body)
    cut = data.draw(st.integers(0, len(whole) - 1))

    assert unpack(whole[:cut]) is None
    assert unpack(whole) == frame


# Pickles


class TwoArguments(Exception):  # noqa: N818  short
    def __init__(self, a: int, *, b: int) -> None:
        super().__init__(f"{a} and {b}")
        self.a = a
        self.b = b


class NoText(Exception):  # noqa: N818  short
    @override
    def __str__(self) -> str:
        raise RuntimeError("no text")


class LosesItsText(Exception):  # noqa: N818  short
    @override
    def __reduce__(self) -> tuple[type[LosesItsText], tuple[()]]:
        return LosesItsText, ()


def raised(exc: BaseException) -> Exception:
    """The exception as the worker sees it."""
    return pickles.load_failure(pickles.dump_failure(exc))


@pytest.mark.parametrize(
    "exc",
    [
        ValueError("plain", 1),
        KeyError("key"),
        FileNotFoundError(2, "No such file", "name"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        TwoArguments(1, b=2),
        NotFoundError("run", 5),
        LeaseLost(5),
        StepTimeout(1.5),
        UnknownDefinitionError("workflow", "a", ("b",)),
        DefinitionError("is wrong", line=3, key="id"),
        HandlerCrashed(-11),
        ExceptionGroup("several", [LeaseLost(1), ValueError("x")]),
    ],
    ids=lambda exc: type(exc).__name__,
)
def test_an_exception_arrives_with_type_text_and_facts(exc: Exception) -> None:
    arrived = raised(exc)

    assert type(arrived) is type(exc)
    assert str(arrived) == str(exc)
    assert arrived.__dict__ == exc.__dict__


@pytest.mark.parametrize("exc", [NoText(), LosesItsText("text"), KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_an_exception_that_cannot_travel_arrives_as_its_name_and_text(exc: BaseException) -> None:
    arrived = raised(exc)

    assert isinstance(arrived, HandlerError)
    assert arrived.type_name == type(exc).__name__


# Messages


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (HandlerCrashed(3), "the handler's process died: exit code 3"),
        (HandlerCrashed(-11), "the handler's process died: signal SIGSEGV (11)"),
        (HandlerCrashed(-40), "the handler's process died: signal 40"),
        (HandlerError("KeyError", "", ""), "KeyError"),
    ],
)
def test_an_error_says_what_happened(error: IngesterError, message: str) -> None:
    assert str(error) == message


def test_the_memory_error_names_the_limit_and_its_setting() -> None:
    assert "4096 MiB" in str(MemoryLimitExceeded(4096))
    assert "STEP_MEMORY_LIMIT_MIB" in str(MemoryLimitExceeded(4096))
