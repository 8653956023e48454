"""Handlers in the worker itself: an async one on its loop, a plain one in a thread."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import Any, Final

from soliplex.ingester.lib.wf.errors import StepTimeout
from soliplex.ingester.lib.wf.isolation.stopping import thread_flag

# The worker's pools decide how many handlers run; here no thread should ever be missing. Unneeded ones are not started.
_MOST_THREADS: Final = 64


async def run_inline(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    timeout: float | None = None,  # noqa: ASYNC109  a step's setting, and it becomes an error of the engine
    executor: Executor | None = None,
) -> Any:
    """Call a handler here; StepTimeout when it takes longer than `timeout`. A TimeoutError of its own comes as it is.

    On a timeout or a cancellation an async handler is cancelled. A thread cannot be: the wait ends at once, the thread
    goes on until the handler looks at `stop_requested()` or returns, and what it returns is dropped. One that does not
    end keeps the worker from exiting: what may hang belongs in a process.
    """
    if timeout is None:
        return await _call(function, arguments, executor)
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await _call(function, arguments, executor)
    except TimeoutError as exc:
        if limit.expired():
            raise StepTimeout(timeout) from exc
        raise


async def _call(function: Callable[..., Any], arguments: Mapping[str, Any], executor: Executor | None) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**arguments)
    result = await _in_thread(function, arguments, executor or _threads())
    return await result if inspect.isawaitable(result) else result


async def _in_thread(function: Callable[..., Any], arguments: Mapping[str, Any], executor: Executor) -> Any:
    stop, context = threading.Event(), copy_context()
    context.run(thread_flag.set, stop)
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, partial(context.run, function, **arguments))
    except asyncio.CancelledError:
        stop.set()
        raise


@cache
def _threads() -> Executor:
    return ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="handler")
