"""The threads in which models of this process compute: one for each core.

Each thread computes a group of texts by itself. To share one group among the cores is slower: at every layer all
threads wait for the last one, which takes several times as long on a machine that has other work to do.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial, wraps
from threading import Lock
from typing import Final

_COUNT: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_COUNT, thread_name_prefix="embedding")


def loaded_once[**P, R](load: Callable[P, R]) -> Callable[P, R]:
    """The function, called once for each set of arguments: the threads share the model that the first of them loads."""
    loading, loaded = Lock(), cache(load)

    @wraps(load)
    def shared(*arguments: P.args, **options: P.kwargs) -> R:
        with loading:
            return loaded(*arguments, **options)

    return shared


async def compute[**P, R](function: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
    """Call the function in one of the models' threads."""
    work = partial(copy_context().run, partial(function, *arguments, **options))
    return await asyncio.get_running_loop().run_in_executor(_threads(), work)


async def compute_each[A, R](function: Callable[[A], R], groups: Iterable[A]) -> list[R]:
    """Call the function with each group, on all threads.

    No caller has more groups waiting than there are threads: a search that comes while thousands of texts are being
    embedded waits for a few of them only.
    """
    numbered = enumerate(groups)
    results = dict[int, R]()

    async def work() -> None:
        for number, group in numbered:
            results[number] = await compute(function, group)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_COUNT):
                group.create_task(work())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [results[number] for number in range(len(results))]
