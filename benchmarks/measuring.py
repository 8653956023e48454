"""Taking measures: each in turn, within its time, and what fails told beside what did not."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

from benchmarks.databases import Server, bring_up
from benchmarks.report import Options, Result, machine

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LONGEST: Final = 600.0
"""Seconds after which a measure is given up."""


def percentiles(values: Sequence[float]) -> dict[str, float]:
    return {"p50": median(values), "p95": quantiles(values, n=20, method="inclusive")[-1]}


type Measure[S] = Callable[[Server, S], Awaitable[Result]]


def run_benchmark[S: DataclassInstance](
    name: str,
    options: Options,
    sizes: S,
    measures: Mapping[str, Measure[S]],
    *,
    peers: Callable[[Server], Result] | None = None,
    close: Callable[[], Awaitable[None]] | None = None,
) -> Result:
    """All that is asked for, as one JSON object. `close` ends what measures have left open for those after them."""
    facts = machine()
    with bring_up(options.database, options.postgres_url) as server:
        head: Result = {
            "benchmark": name,
            "database": options.database,
            "database_version": server.version,
            "quick": options.quick,
            "machine": facts,
            "sizes": asdict(sizes),
        }
        result = head | asyncio.run(measure_all(server, sizes, measures, only=options.only, close=close))
        result["machine"] |= {"load_after": round(os.getloadavg()[0], 2)}
        if peers is not None:
            result["peers"] = peers(server)
    return result


async def measure_all[S](
    server: Server,
    sizes: S,
    measures: Mapping[str, Measure[S]],
    *,
    only: Sequence[str] = (),
    close: Callable[[], Awaitable[None]] | None = None,
) -> Result:
    """Every measure in turn. One that fails gives null, and its reason."""
    try:
        return await _measure_each(server, sizes, measures, only)
    finally:
        if close is not None:
            await close()


async def _measure_each[S](server: Server, sizes: S, measures: Mapping[str, Measure[S]], only: Sequence[str]) -> Result:
    result: Result = {"failed": {}, "seconds": {}}
    for name in only or measures:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(LONGEST):
                result |= await measures[name](server, sizes)
        except Exception as exc:  # noqa: BLE001  whatever went wrong, the other figures are still worth having
            result |= {name: None, "failed": {**result["failed"], name: f"{type(exc).__name__}: {exc}"}}
        result["seconds"][name] = round(time.perf_counter() - began, 1)
        print(f"{name}: {result['seconds'][name]} s", file=sys.stderr)
    return result
