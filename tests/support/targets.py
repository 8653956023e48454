"""A place where documents go that is no more than a few dictionaries: for tests of what is done with a target."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from soliplex.ingester.cli.ingest.files import LocalFile, fingerprint
from soliplex.ingester.cli.ingest.target import (
    Failure,
    FileRefusedError,
    GroupProgress,
    StageProgress,
    Standing,
    Started,
    Work,
)
from soliplex.ingester.lib.models import RunStatus

STEPS = ("parse", "store")


@dataclass
class MemoryTarget:
    """Documents in dictionaries; each look at a group processes some more of it."""

    refused: dict[str, str] = field(default_factory=dict[str, str])
    """Files that are refused, by name, with the reason."""
    failing: dict[str, str] = field(default_factory=dict[str, str])
    """Documents that fail to be parsed, by name, with the reason."""
    per_look: int = 1_000_000
    """Steps that are done between two looks."""
    workers: bool = True
    on_upload: Callable[[LocalFile], None] = lambda _: None
    on_look: Callable[[], None] = lambda: None

    stored: dict[str, str] = field(default_factory=dict[str, str])
    batches: list[str] = field(default_factory=list[str])
    batch_of: dict[str, int] = field(default_factory=dict[str, int])
    groups: list[int] = field(default_factory=list[int])
    """The batch of each group; ids count from one."""
    runs: dict[str, int] = field(default_factory=dict[str, int])
    """Steps done, by document."""
    uploads: list[str] = field(default_factory=list[str])
    is_working: bool = False
    is_here: bool = True
    recorded: dict[str, Any] = field(default_factory=dict[str, Any])
    """How fast documents were processed before."""

    async def rates(self, work: Work) -> dict[str, Any]:
        del work
        return self.recorded

    async def check(self, work: Work) -> None:
        del work

    async def standings(self, source: str, hashes: Mapping[str, str]) -> dict[str, Standing]:
        def standing(uri: str, digest: str) -> Standing:
            if uri not in self.stored:
                return Standing.NEW
            return Standing.UNCHANGED if self.stored[uri] == digest else Standing.CHANGED

        return {uri: standing(uri, digest) for uri, digest in hashes.items()}

    async def unfinished_batch(self, source: str, name: str) -> int | None:
        number = max((index for index, each in enumerate(self.batches, 1) if each == name), default=None)
        return None if number is None or self._is_over(number) else number

    def _is_over(self, batch_id: int) -> bool:
        documents = [uri for uri, batch in self.batch_of.items() if batch == batch_id]
        return batch_id in self.groups and all(self._has_ended(uri) for uri in documents)

    def _has_ended(self, uri: str) -> bool:
        return self._is_failed(uri) or self.runs.get(uri, 0) == len(STEPS)

    def _is_failed(self, uri: str) -> bool:
        return uri.rpartition("/")[2] in self.failing

    async def create_batch(self, source: str, name: str) -> int:
        self.batches.append(name)
        return len(self.batches)

    async def upload(
        self, file: LocalFile, *, source: str, batch_id: int, work: Work, sent: Callable[[int], None]
    ) -> None:
        self.on_upload(file)
        await asyncio.sleep(0)
        if file.path.name in self.refused:
            raise FileRefusedError(self.refused[file.path.name])
        sent(file.size)
        self.uploads.append(file.path.name)
        self.stored[file.uri] = fingerprint(file.path)
        self.batch_of[file.uri] = batch_id
        self.runs.pop(file.uri, None)

    async def start_workflows(self, batch_id: int, work: Work) -> Started:
        if batch_id not in self.groups:
            self.groups.append(batch_id)
        new = [uri for uri, batch in self.batch_of.items() if batch == batch_id and uri not in self.runs]
        self.runs.update(dict.fromkeys(new, 0))
        return Started(self.groups.index(batch_id) + 1, len(new))

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        self.is_working = True
        try:
            yield
        finally:
            self.is_working = False

    async def has_workers(self) -> bool:
        return self.workers

    async def progress(self, group_id: int) -> GroupProgress:
        documents = [uri for uri, batch in self.batch_of.items() if batch == self.groups[group_id - 1]]
        if self.is_working:
            self.on_look()
            self._work(documents)
        failed = sum(self._is_failed(uri) for uri in documents)
        done = sum(self.runs[uri] == len(STEPS) for uri in documents)
        stages = (
            StageProgress("parse", len(documents), sum(self.runs[uri] > 0 for uri in documents), failed, 0),
            StageProgress("store", len(documents), done, 0, failed),
        )
        over = done + failed == len(documents)
        final = RunStatus.FAILED if failed else RunStatus.COMPLETED
        return GroupProgress(final if over else RunStatus.RUNNING, len(documents), done, failed, 0, stages)

    def _work(self, documents: list[str]) -> None:
        for _ in range(self.per_look):
            waiting = [uri for uri in documents if not self._has_ended(uri)]
            if not waiting:
                return
            self.runs[min(waiting, key=lambda uri: self.runs[uri])] += 1

    async def failures(self, group_id: int, limit: int) -> list[Failure]:
        failed = [
            uri for uri, batch in self.batch_of.items() if batch == self.groups[group_id - 1] and self._is_failed(uri)
        ]
        return [Failure(uri, "parse", self.failing[uri.rpartition("/")[2]]) for uri in failed][:limit]
