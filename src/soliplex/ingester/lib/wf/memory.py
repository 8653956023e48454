"""Gives free memory back to the system; the C library keeps hundreds of MiB after one long document."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import cast


def give_memory_back() -> bool:
    """Give free memory back to the system; says whether there was any.

    Takes some milliseconds; does nothing without glibc.
    """
    trim = _malloc_trim()
    return trim is not None and bool(trim(0))


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    # ctypes releases the interpreter's lock during the call, so other threads go on.
    return cast("Callable[[int], int] | None", getattr(ctypes.CDLL(None), "malloc_trim", None))
