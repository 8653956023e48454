"""The overview of an installation behind a server, from the routes that tell of its parts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from soliplex.ingester.installation.overview import MOST_GROUPS, MOST_ROWS, UNDER_WAY, Overview, Told
from soliplex.ingester.lib.wf.answers import GroupEta


class Json(Protocol):
    """Asks a route; gives its answer."""

    def __call__(self, method: str, path: str, **content: Any) -> Awaitable[Any]: ...


class Eta(Protocol):
    """Tells when a group will have ended."""

    def __call__(self, group_id: int) -> Awaitable[GroupEta | None]: ...


async def overview_by_routes(json: Json, eta: Eta) -> Overview:
    """Ask the routes side by side."""
    rows = {"page": 1, "rows_per_page": MOST_ROWS}
    queues, ended, workers, locks, causes, groups = await asyncio.gather(
        json("GET", "/workflow/queues"),
        json("GET", "/stats/throughput/steps", params={"interval": "minute"}),
        json("GET", "/workers", params=rows),
        json("GET", "/locks", params=rows),
        json("GET", "/workflow/failures/by-cause", params={"interval": "day"}),
        _active_groups(json),
    )
    etas = await asyncio.gather(*(eta(each["id"]) for each in groups[0]))
    return Told(
        at=datetime.now(UTC),
        queues=queues,
        throughput=ended,
        workers=_rows_of(workers),
        locks=_rows_of(locks),
        groups=groups,
        etas={each["id"]: told for each, told in zip(groups[0], etas, strict=True)},
        causes=causes["causes"],
    ).overview()


async def _active_groups(json: Json) -> tuple[list[dict[str, Any]], int]:
    query = {"page": 1, "rows_per_page": MOST_GROUPS}
    pages = [await json("GET", "/workflow/run-groups", params=query | {"status": status}) for status in UNDER_WAY]
    return [group for page in pages for group in page["items"]][:MOST_GROUPS], sum(page["total"] for page in pages)


def _rows_of(page: Mapping[str, Any]) -> tuple[Sequence[Mapping[str, Any]], int]:
    return page["items"], page["total"]
