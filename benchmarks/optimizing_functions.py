"""The functions of the flow that the optimizer's benchmark records and improves."""

from __future__ import annotations

import asyncio
import random
from typing import Final

SHORT: Final = 0.005
LONG: Final = 0.02
HICCUP: Final = 0.1
"""The share of calls that fail, to succeed when they are tried again."""

_chance = random.Random(7)


async def begin(number: int) -> int:
    return number


async def short(begin: int) -> int:
    await asyncio.sleep(SHORT)
    return begin


async def long(begin: int) -> int:
    await asyncio.sleep(LONG)
    return begin + 1


async def longer(long: int) -> int:
    await asyncio.sleep(LONG)
    return long + 1


async def longest(longer: int) -> int:
    await asyncio.sleep(LONG)
    if _chance.random() < HICCUP:
        raise ConnectionError("a hiccup")
    return longer + 1


async def packed(longest: int) -> int:
    return longest * 2


async def sent(packed: int) -> int:
    return packed
