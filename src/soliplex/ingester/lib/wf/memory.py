"""Free memory goes back to the system. The C library keeps most of it: hundreds of MiB after one long document."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import cast


def give_memory_back() -> bool:
    """Give free memory back; says whether there was any. Takes some milliseconds; without glibc, nothing happens."""
    trim = _malloc_trim()
    return trim is not None and bool(trim(0))


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    # ctypes releases the interpreter's lock during the call.
    return cast("Callable[[int], int] | None", getattr(ctypes.CDLL(None), "malloc_trim", None))
