"""The thread in which models of this process compute.

One for all: a model uses every core by itself, so a second computation at the same time would only slow the first.
Work comes in batches of less than a second; between two of them, callers take turns and cancellations take effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="embedding")


async def compute[**P, R](function: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
    """Call the function in the models' thread."""
    return await asyncio.get_running_loop().run_in_executor(_thread(), partial(function, *arguments, **options))
