"""`Ingester`: an installation for programs in Python, in this process or behind a server.

    async with Ingester() as ingester:
        report = await ingester.ingest("docs/", source="handbook")
        for hit in await ingester.search("how is a write made durable", limit=5):
            print(hit.score, hit.uri, hit.headings, hit.pages, hit.content)

It does what the commands of the same names do, over the same protocol, and prints nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from soliplex.ingester.installation.following import Followed, follow_groups
from soliplex.ingester.installation.ingestion import Ingestion, delete_gone
from soliplex.ingester.installation.known_uris import known_uri, known_uris
from soliplex.ingester.installation.local_files import Rules
from soliplex.ingester.installation.order import Order
from soliplex.ingester.installation.stages import Unwatched, Watcher
from soliplex.ingester.installation.values import Failure, Question, Work
from soliplex.ingester.installation.which_installation import checked_address, open_installation
from soliplex.ingester.lib.answers import MOST_HITS, SearchKind
from soliplex.ingester.lib.errors import IngesterError, InvalidInputError
from soliplex.ingester.lib.storable import checked_name

if TYPE_CHECKING:
    from types import TracebackType

    from soliplex.ingester.installation.protocol import Installation
    from soliplex.ingester.installation.summary import Summary
    from soliplex.ingester.lib.answers import Hit, KnownSource, RolledBack, StoredVersion, VersionDiff
    from soliplex.ingester.lib.config import Settings

type PathName = str | os.PathLike[str]


class NotOpenError(IngesterError):
    """An ingester is used before `async with`, or after its block."""

    def __init__(self) -> None:
        super().__init__("the ingester is not open; use it inside `async with Ingester() as ingester:`")


class NotStoredAgainError(IngesterError):
    """A document was rolled back, and a RAG database could not follow."""

    def __init__(self, uri: str, failures: Sequence[Failure]) -> None:
        reasons = "; ".join(f"{each.stage}: {each.reason}" for each in failures) or "its run was cancelled"
        super().__init__(f"{uri!r} was rolled back, but searches still find the content from before: {reasons}")
        self.uri = uri
        self.failures = list(failures)


class Ingester:
    """The installation of the settings, in this process, or with `server` the one behind that address.

    Settings that are not given are those of the environment. A server is shown `api_key`, or else API_KEY.
    """

    def __init__(
        self, *, settings: Settings | None = None, server: str | None = None, api_key: str | None = None
    ) -> None:
        if api_key is not None and server is None:
            raise InvalidInputError("api_key", "goes with server: an installation in this process asks for no key")
        self._settings = settings
        self._server = server if server is None else checked_address(server)
        self._api_key = api_key
        self._closing = AsyncExitStack()
        self._opened: Installation | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        if self._opened is not None:
            raise IngesterError("the ingester is open already; make another one, or use this one as it is")
        opening = open_installation(self._server, settings=self._settings, api_key=self._api_key)
        self._opened = await self._closing.enter_async_context(opening)
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened = self._loop = None
        await self._closing.__aexit__(kind, error, trace)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that it was opened in, and works in."""
        if self._loop is None:
            raise NotOpenError
        return self._loop

    @property
    def _installation(self) -> Installation:
        if self._opened is None:
            raise NotOpenError
        return self._opened

    async def ingest(
        self,
        *paths: PathName,
        source: str = "files",
        workflow: str | None = None,
        params: str | None = None,
        priority: int = 0,
        batch_name: str | None = None,
        include: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        hidden: bool = False,
        gitignore: bool = True,
        all_folders: bool = False,
        follow_links: bool = False,
        again: bool = False,
        dry_run: bool = False,
        retry_failed: bool = False,
        delete_missing: bool = False,
        force: bool = False,
        wait: bool = True,
        jobs: int = 8,
        watcher: Watcher | None = None,
        stopping: asyncio.Event | None = None,
    ) -> Summary:
        """Ingest folders and files, as `si-cli ingest` does with the options of these names, and report on it.

        Documents that failed are in the report, and raise nothing. `watcher` is told how it goes; setting `stopping`
        ends it between two documents, and the same call made again goes on.
        """
        rules = Rules(
            include=_several(include),
            exclude=_several(exclude),
            hidden=hidden,
            gitignore=gitignore,
            follow_links=follow_links,
            all_folders=all_folders,
        )
        order = Order(
            paths=[Path(path) for path in paths],
            rules=rules,
            source=source,
            batch_name=batch_name,
            work=Work(workflow_id=workflow, param_id=params, priority=priority),
            again=again,
            dry_run=dry_run,
            retry_failed=retry_failed,
            delete_missing=delete_missing,
            force=force,
            wait=wait,
            uploads_at_once=jobs,
        )
        target = self._installation
        summary = await Ingestion(order, target, watcher or Unwatched(), stopping or asyncio.Event()).run()
        await delete_gone(order, target, summary)
        return summary

    async def search(
        self,
        question: str,
        *,
        limit: int = 5,
        kind: SearchKind | str = SearchKind.HYBRID,
        source: str | None = None,
        batch_id: int | None = None,
        uri_prefix: str | None = None,
        min_score: float | None = None,
        meta: Mapping[str, str] | None = None,
        db: str | None = None,
    ) -> list[Hit]:
        """The passages that answer best, best first; of documents with these facts alone, where any are given."""
        asked = Question(
            text=question,
            kind=_kind_named(kind),
            limit=_checked_limit(limit),
            db=db,
            source=source,
            batch_id=batch_id,
            uri_prefix=uri_prefix,
            min_score=min_score,
            meta=meta or {},
        )
        return await self._installation.search(asked)

    async def sources(self) -> list[KnownSource]:
        """The sources that documents come from, each with the number of its URIs."""
        return await self._installation.sources()

    async def uris(self, source: str = "files", *, prefix: str = "") -> list[str]:
        """The URIs of a source; with a prefix, those that begin with it."""
        return await self._installation.uris_below(checked_name("source", source), prefix)

    async def read(self, uri: str, *, source: str = "files", version: int | None = None) -> str:
        """The text of a document, as Markdown. For a file, the URI may be its path."""
        return await self._installation.text(await self._known(uri, source), source, version)

    async def versions(self, uri: str, *, source: str = "files", limit: int = 50) -> list[StoredVersion]:
        """The newest versions of a document, the newest first."""
        found, _ = await self._installation.versions(await self._known(uri, source), source, limit)
        return list(found)

    async def diff(
        self,
        uri: str,
        *,
        source: str = "files",
        from_version: int | None = None,
        to_version: int | None = None,
        context: int = 3,
    ) -> VersionDiff:
        """How two versions differ: by default the current one from the one before it."""
        place = await self._known(uri, source)
        return await self._installation.diff(place, source, from_version, to_version, context=context)

    async def roll_back(
        self,
        uri: str,
        version: int,
        *,
        source: str = "files",
        workflow: str | None = None,
        params: str | None = None,
        wait: bool = True,
    ) -> RolledBack:
        """Give a document the content of an earlier version again, and wait until searches find that.

        NotStoredAgainError if the RAG database could not be changed.
        """
        work = Work(workflow_id=workflow, param_id=params)
        done = await self._installation.roll_back(await self._known(uri, source), source, version, work)
        followed = await self._follow([run.run_group_id for run in done.runs]) if wait and done.runs else Followed()
        if not followed.is_success:
            raise NotStoredAgainError(done.uri, followed.failures)
        return done

    async def delete(self, *uris: str, source: str = "files") -> int:
        """Delete documents with all that is stored of them; gives how many. If one is not known, none is deleted."""
        if not uris:
            raise InvalidInputError("uris", "are none; `delete_source` deletes all of a source")
        return await self._installation.delete(source, await known_uris(self._installation, uris, source))

    async def delete_source(self, source: str) -> int:
        """Delete all documents of a source, without a question; gives how many."""
        return await self._installation.delete(source, await self.uris(source))

    async def _known(self, uri: str, source: str) -> str:
        return await known_uri(self._installation, uri, source)

    async def _follow(self, group_ids: Sequence[int]) -> Followed:
        return await follow_groups(self._installation, group_ids, Unwatched(), asyncio.Event())


def _several(patterns: str | Sequence[str]) -> Sequence[str]:
    return [patterns] if isinstance(patterns, str) else patterns


def _kind_named(kind: str) -> SearchKind:
    try:
        return SearchKind(kind)
    except ValueError:
        raise InvalidInputError("kind", f"{kind!r} is none of {', '.join(SearchKind)}") from None


def _checked_limit(limit: int) -> int:
    if not 1 <= limit <= MOST_HITS:
        raise InvalidInputError("limit", f"is {limit}; give a number from 1 to {MOST_HITS}")
    return limit
