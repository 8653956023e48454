"""A place where documents go that is no more than a few dictionaries: for tests of what is done with a target."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from soliplex.ingester.installation.local_files import LocalFile, fingerprint
from soliplex.ingester.installation.values import (
    Changes,
    Failure,
    FileRefusedError,
    GroupProgress,
    Retried,
    StageProgress,
    Standing,
    Started,
    Work,
)
from soliplex.ingester.lib.answers import DocumentCoverage, GroupCoverage, Waiting
from soliplex.ingester.lib.models import RunStatus

STEPS = ("parse", "store")


@dataclass
class MemoryTarget:
    """Documents in dictionaries; each look at a group processes some more of it."""

    refused: dict[str, str] = field(default_factory=dict[str, str])
    """Files that are refused, by name, with the reason."""
    failing: dict[str, str] = field(default_factory=dict[str, str])
    """Documents that fail to be parsed, by name, with the reason."""
    blank: set[str] = field(default_factory=set[str])
    """Documents without text, by name."""
    read: dict[str, float] = field(default_factory=dict[str, float])
    """The share of its words that was read of a document, by name."""
    routed: set[str] = field(default_factory=set[str])
    """Documents that are sent into another workflow, by name: their first run has ended well when it begins."""
    can_retry: bool = True
    """Whether those that fail say that trying again can help."""
    mended: bool = False
    """Whether what failed succeeds when it is tried again."""
    per_look: int = 1_000_000
    """Steps that are done between two looks."""
    waiting: list[Waiting] = field(default_factory=list[Waiting])
    """Why documents wait to be tried again."""
    workers: bool = True
    on_upload: Callable[[LocalFile], None] = lambda _: None
    on_look: Callable[[], None] = lambda: None

    metas: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    stored: dict[str, str] = field(default_factory=dict[str, str])
    batches: list[str] = field(default_factory=list[str])
    batch_of: dict[str, int] = field(default_factory=dict[str, int])
    groups: list[int] = field(default_factory=list[int])
    """The batch of each group; ids count from one."""
    runs: dict[str, int] = field(default_factory=dict[str, int])
    """Steps done, by document."""
    deleted: list[str] = field(default_factory=list[str])
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

    async def metadata(self, doc_hash: str) -> Mapping[str, Any]:
        return self.metas.get(doc_hash, {})

    async def unread(self, kinds: Collection[str], work: Work) -> Mapping[str, str]:
        return {
            kind: f"no parser reads {kind}"
            for kind in kinds
            if kind.startswith(("application/x-7z", "application/zip", "video/"))
        }

    async def uris_below(self, source: str, beginning: str) -> list[str]:
        return sorted(uri for uri in self.stored if uri.startswith(beginning))

    async def delete(self, source: str, uris: Sequence[str]) -> int:
        known = [uri for uri in uris if uri in self.stored]
        for uri in known:
            del self.stored[uri]
        self.deleted += known
        return len(known)

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
        self.stored[file.uri] = fingerprint(file.bytes_at)
        self.metas[self.stored[file.uri]] = dict(file.meta)
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

    @asynccontextmanager
    async def changes(self, group_id: int) -> AsyncGenerator[Changes]:
        del group_id
        yield Changes()

    async def has_workers(self) -> bool:
        return self.workers

    async def loads(self, group_id: int) -> dict[str, str]:
        del group_id
        return {}

    async def coverage(self, group_id: int) -> GroupCoverage:
        del group_id
        lowest = [
            DocumentCoverage(number, uri, self.read[uri.rpartition("/")[2]], 1)
            for number, uri in enumerate(self.stored)
            if uri.rpartition("/")[2] in self.read
        ]
        return GroupCoverage(len(lowest), 100, len(lowest), 0.9 if lowest else None, lowest)

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
        routed = sum(self.runs[uri] > 0 for uri in documents if uri.rpartition("/")[2] in self.routed)
        total, done = len(documents) + routed, done + routed
        return GroupProgress(final if over else RunStatus.RUNNING, total, done, failed, 0, stages)

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
        return [
            Failure(uri, "parse", self.failing[uri.rpartition("/")[2]], self.can_retry, group_id) for uri in failed
        ][:limit]

    async def reasons_to_wait(self, group_id: int, limit: int) -> list[Waiting]:
        del group_id
        return self.waiting[:limit]

    async def with_nothing_to_index(self, group_id: int, limit: int) -> list[str]:
        return [uri for uri in self.stored if uri.rpartition("/")[2] in self.blank][:limit]

    async def failed(self, source: str, beginning: str, limit: int) -> list[Failure]:
        found = [uri for uri in self.stored if uri.startswith(beginning) and uri in self.runs and self._is_failed(uri)]
        return [
            Failure(uri, "parse", self.failing[uri.rpartition("/")[2]], self.can_retry, self._group_of(uri))
            for uri in found
        ][:limit]

    def _group_of(self, uri: str) -> int:
        return self.groups.index(self.batch_of[uri]) + 1

    async def retry(self, group_id: int, *, hard: bool) -> Retried:
        put_back = [
            uri for uri, batch in self.batch_of.items() if batch == self.groups[group_id - 1] and self._is_failed(uri)
        ]
        if self.mended:
            self.failing.clear()
        for uri in put_back:
            self.runs[uri] = 0
        return Retried(len(put_back), len(put_back))
