"""Clients that use an installation while it is in trouble, and write down what was acknowledged.

A place is changed by one client only, one request after the other: so its books say what must be there in the end. A
request that was not answered may have been carried out, or may be later, when a stopped server goes on: what it would
have made is possible from then on, beside what was acknowledged last.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE
from tests.chaos.installation import Installation
from tests.support.documents import hash_of
from tests.support.engine import scalar

API: Final = "/api/v1"
GONE: Final = ""
"""What a place holds whose URI was deleted."""
MOST_WAITING: Final = 40
"""Runs that have not ended beyond which clients wait: many small commits are hit more often than few large ones."""


@dataclass
class Place:
    """A URI, and what its client knows of it."""

    source: str
    uri: str
    data_dir: str
    present: str = GONE
    """The hash of the content that was acknowledged last."""
    possible: set[str] = field(default_factory=set[str])
    """What requests would have made of it that nobody answered."""
    versions: list[str] = field(default_factory=list[str])
    """All hashes that were acknowledged."""
    words: dict[str, str] = field(default_factory=dict[str, str])
    """The word that stands only in this content, by its hash."""


@dataclass
class Book:
    """What all clients know, and what they have done."""

    places: list[Place] = field(default_factory=list[Place])
    batches: dict[int, str] = field(default_factory=dict[int, str])
    """Batches whose start was not acknowledged, with their parameter sets."""
    done: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    """Answers that were none of the expected ones, by request and status."""
    mixed: list[str] = field(default_factory=list[str])
    """Searches that found two versions of a document at once."""


class UnansweredError(Exception):
    """The request may have been carried out."""


class RefusedError(Exception):
    """The request was not carried out."""


class Client:
    """One of those who upload. It has its own source, its own places and its own dice."""

    def __init__(self, number: int, installation: Installation, book: Book, dice: random.Random) -> None:
        self._number = number
        self._installation = installation
        self._book = book
        self._dice = dice
        self._places: list[Place] = []
        self._names = 0

    async def work(self, data_dir: Callable[[], str], until: asyncio.Event) -> None:
        """Do rounds until the event is set, each into the RAG database that `data_dir` names then."""
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(timeout=30, limits=limits) as self._http:
            while not until.is_set():
                if await _waiting() > MOST_WAITING:
                    await asyncio.sleep(0.2)
                else:
                    await self._round(data_dir())

    async def _round(self, data_dir: str) -> None:
        try:
            batch_id = await self._new_batch(data_dir)
        except (UnansweredError, RefusedError):
            await asyncio.sleep(0.3)
            return
        self._book.batches[batch_id] = data_dir
        chosen = {id(place): place for place in self._choose(data_dir)}.values()
        await asyncio.gather(*(self._alone(self._upload, place, batch_id) for place in chosen))
        await self._alone(self._start, batch_id, data_dir)
        mine = [place for place in self._places if place.data_dir == data_dir and place.present != GONE]
        for action, chance in ((self._delete, 0.3), (self._roll_back, 0.4), (self._search, 0.6)):
            if mine and self._dice.random() < chance:
                await self._alone(action, self._dice.choice(mine))
        if self._dice.random() < 0.1:
            await self._alone(self._vacuum, data_dir)

    async def _alone(self, action: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        try:
            await action(*arguments)
        except (UnansweredError, RefusedError):
            await asyncio.sleep(0.1)

    def _choose(self, data_dir: str) -> list[Place]:
        """New places, and some of those that there are."""
        count = self._dice.randint(2, 8)
        mine = [place for place in self._places if place.data_dir == data_dir and place.present != GONE]
        changed = [self._dice.choice(mine) for _ in range(count // 3) if mine]
        return [*changed, *(self._new_place(data_dir) for _ in range(count - len(changed)))]

    def _new_place(self, data_dir: str) -> Place:
        self._names += 1
        place = Place(f"source{self._number}", f"/c{self._number}/{self._names}.md", data_dir)
        self._places.append(place)
        self._book.places.append(place)
        return place

    async def _new_batch(self, data_dir: str) -> int:
        form = {"source": f"source{self._number}", "name": data_dir}
        answer = await self._ask("POST", "/batch/", data=form)
        return answer["batch_id"]

    async def _upload(self, place: Place, batch_id: int) -> None:
        content, word = self._content(place)
        doc_hash = hash_of(content)
        place.words[doc_hash] = word
        form = {"source_uri": place.uri, "source": place.source, "batch_id": str(batch_id)}
        what = "new versions" if place.versions else "uploads"
        try:
            await self._ask(
                "POST", "/document/ingest-document", data=form, files={"file": (place.uri, content, "text/markdown")}
            )
        except UnansweredError:
            place.possible.add(doc_hash)
            raise
        self._book.done[what] += 1
        place.present = doc_hash
        place.versions.append(doc_hash)

    def _content(self, place: Place) -> tuple[bytes, str]:
        """A small document with a word that is in no other, and a word that is in all versions of this place."""
        name = place.uri.strip("/").removesuffix(".md").replace("/", "n")
        word = f"only{name}v{self._dice.randrange(16**8):08x}"
        parts = [
            f"## Part {number}\n\nOf {word} and of all{name} there is part {number}. "
            + " ".join(self._dice.choice(WORDS) for _ in range(self._dice.randint(10, 60)))
            for number in range(self._dice.randint(1, 5))
        ]
        return f"# {name}\n\n{'\n\n'.join(parts)}\n".encode(), word

    async def _start(self, batch_id: int, data_dir: str) -> None:
        form = {"batch_id": batch_id, "workflow_definition_id": "batch", "param_id": data_dir}
        for _ in range(5):
            try:
                await self._ask("POST", "/batch/start-workflows", data=form)
            except (UnansweredError, RefusedError):
                await asyncio.sleep(0.5)
                continue
            self._book.done["batches started"] += 1
            del self._book.batches[batch_id]
            return

    async def _delete(self, place: Place) -> None:
        parameters = {"uri": place.uri, "source": place.source}
        try:
            await self._ask("DELETE", "/document/by-uri", params=parameters)
        except UnansweredError:
            place.possible.add(GONE)
            raise
        self._book.done["deletions"] += 1
        place.present = GONE

    async def _roll_back(self, place: Place) -> None:
        if len(place.versions) < 2:
            return
        version = self._dice.randint(1, len(place.versions) - 1)
        form = {"uri": place.uri, "source": place.source, "version": version}
        try:
            answer = await self._ask("POST", "/document/rollback", data=form)
        except UnansweredError:
            place.possible.update(place.versions)
            raise
        self._book.done["roll-backs"] += 1
        place.present = answer["hash"]
        place.versions.append(answer["hash"])

    async def _search(self, place: Place) -> None:
        name = place.uri.strip("/").removesuffix(".md").replace("/", "n")
        asked = {"q": f"all{name}", "db": place.data_dir, "kind": "text", "limit": 50}
        found = await self._ask("GET", "/search", params=asked, also=(404,))
        if found is None:
            return  # nothing was stored there yet
        self._book.done["searches"] += 1
        hashes = {hit["doc_hash"] for hit in found["results"] if hit["uri"] == place.uri}
        if len(hashes) > 1:
            self._book.mixed.append(f"{place.data_dir}: a search found {len(hashes)} versions of {place.uri} at once")

    async def _vacuum(self, data_dir: str) -> None:
        if await self._ask("POST", "/lancedb/vacuum", params={"db": data_dir}, also=(404, 409)) is not None:
            self._book.done["vacuums"] += 1

    async def _ask(self, method: str, path: str, *, also: tuple[int, ...] = (), **options: Any) -> Any:
        """What a server answers; None where it refuses in a way that is `also` in order."""
        slot = self._dice.choice(self._installation.servers())
        what = f"{method} {path}"
        try:
            answer = await self._http.request(method, f"{slot.url}{API}{path}", **options)
        except httpx.ConnectError as exc:
            raise RefusedError from exc  # nobody was there to hear it
        except httpx.TransportError as exc:
            self._book.refused[f"{what}: {type(exc).__name__}"] += 1
            raise UnansweredError from exc
        if answer.is_success:
            return answer.json()
        if answer.status_code in also:
            return None
        self._book.refused[f"{what}: {answer.status_code} {answer.text[:100]}"] += 1
        raise UnansweredError if answer.is_server_error else RefusedError


async def _waiting() -> int:
    try:
        return await scalar("SELECT count(*) FROM workflowrun WHERE completed_date IS NULL")
    except TROUBLES_OF_THE_DATABASE:
        return MOST_WAITING + 1


WORDS: Final = (
    *("lamp", "lens", "keeper", "tower", "harbour", "fog", "bell", "rope", "stair", "oil"),
    *("wick", "mirror", "storm", "rock", "tide", "ship", "chart", "logbook", "gale", "lantern"),
)
