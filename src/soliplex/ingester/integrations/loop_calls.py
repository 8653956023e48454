"""Calls from code that does not await, and from other event loops.

An ingester works in the event loop it was opened in. Frameworks call some methods in a loop of the program's, others in
none: each call goes to the ingester's own loop, and its answer comes back. Where a program has no loop at all,
`open_in_thread` gives the ingester one, in a thread.

    invoke(), in any thread ──▶ answered() ──┐
    await ainvoke(), in any loop ──▶ asked() ┴──▶ the loop that the ingester was opened in
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from soliplex.ingester.installation.ingester import Ingester
from soliplex.ingester.lib.errors import ConflictError

type Ask[T] = Callable[[], Coroutine[Any, Any, T]]


@contextmanager
def open_in_thread(ingester: Ingester) -> Generator[Ingester]:
    """The ingester, open for the time of the block in an event loop of its own: for programs that have none."""
    opened: Future[asyncio.Event] = Future()

    async def live() -> None:
        stopping = asyncio.Event()
        async with ingester:
            opened.set_result(stopping)
            await stopping.wait()

    with ThreadPoolExecutor(1, thread_name_prefix="ingester") as thread:
        living = thread.submit(lambda: asyncio.run(live()))
        wait(list[Future[Any]]((opened, living)), return_when=FIRST_COMPLETED)
        if not opened.done():
            living.result()  # raises why it could not be opened
        loop, stopping = ingester.loop, opened.result()
        try:
            yield ingester
        finally:
            loop.call_soon_threadsafe(stopping.set)
            living.result()


async def asked[T](ingester: Ingester, ask: Ask[T]) -> T:
    """What the coroutine gives, awaited in the ingester's loop."""
    if asyncio.get_running_loop() is ingester.loop:
        return await ask()
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ask(), ingester.loop))


def answered[T](ingester: Ingester, ask: Ask[T]) -> T:
    """As `asked`, for code that does not await. ConflictError in the ingester's loop, which would wait for itself."""
    if _is_running_here(ingester.loop):
        raise ConflictError(
            "this call would wait for the event loop that it was made in; await the method of the same name that "
            "begins with an a, such as ainvoke, aretrieve or aload_data"
        )
    answer = asyncio.run_coroutine_threadsafe(ask(), ingester.loop)
    try:
        return answer.result()
    except BaseException:
        answer.cancel()  # the caller was interrupted and does not wait any more
        raise


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:  # no event loop runs in this thread
        return False
