"""What differs between two versions: their text line by line, and their chunks by identity.

How much work a comparison is depends on the documents: so large ones are compared in another process (`apart.py`),
which also writes the answer as JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter

from soliplex.ingester.lib.answers import ChunkChange, ChunkDiff, DiffedChunk, TextDiff, VersionDiff
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import ArtifactType, Database
from soliplex.ingester.lib.operations.apart import TooMuchWorkError, run_apart
from soliplex.ingester.lib.operations.made import Made, stored_artifacts
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.operations.versions.finding import Place, Version, find_place, find_version
from soliplex.ingester.lib.operations.versions.line_diff import unified
from soliplex.ingester.lib.operations.versions.version_text import see_that_it_is_parsed
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.visible import visible

CONTEXT: Final = 3
"""Lines that are shown around a change."""
SMALL: Final = 256 << 10
"""Bytes of all that is compared, up to which a thread is sooner done than another process would have started."""
LARGEST: Final = 64 << 20
"""Bytes of one side, text or chunks, that are compared at all."""


async def diff_versions(
    uri: str,
    source: str,
    from_version: int | None = None,
    to_version: int | None = None,
    *,
    context: int = CONTEXT,
) -> VersionDiff:
    """Compare two versions: by default the current one with the one before it."""
    text = await diff_versions_as_json(uri, source, from_version, to_version, context=context)
    return await asyncio.to_thread(TypeAdapter(VersionDiff).validate_json, text)


async def diff_versions_as_json(
    uri: str,
    source: str,
    from_version: int | None = None,
    to_version: int | None = None,
    *,
    context: int = CONTEXT,
) -> bytes:
    """The same as JSON. TooMuchWorkError where the two are too large; cancelled, the work ends."""
    place = await find_place(uri, source)
    newer = await find_version(place, place.version if to_version is None else to_version)
    older = await find_version(place, await _before(place, newer) if from_version is None else from_version)
    made = await stored_artifacts((older.hash, newer.hash))
    sides = _Sides(
        (uri, source, older.version, older.hash, newer.version, newer.hash),
        await _texts(place, older, newer, made),
        await _chunks(older, newer, made),
        context,
    )
    if sides.size <= SMALL:
        return await asyncio.to_thread(compared_as_json, sides)
    answer = await run_apart(
        f"comparing versions {older.version} and {newer.version} of {uri!r}", _COMPARED_AS_JSON, {"sides": sides}
    )
    assert isinstance(answer, bytes)
    return answer


async def _before(place: Place, newer: Version) -> int:
    rows = await Database.read(SQL.version_before(uri_id=place.id, version=newer.version))
    if rows[0]["version"] is None:
        problem = f"is missing, and before version {newer.version} of {place.uri!r} there is none"
        raise InvalidInputError("from", f"{problem}: say which two you want to compare")
    return rows[0]["version"]


class _Pair(NamedTuple):
    """The configurations under which the two sides were made."""

    older: int
    newer: int

    @property
    def is_same(self) -> bool:
        return self.older == self.newer


def _configurations(kind: ArtifactType, older: Sequence[Made], newer: Sequence[Made]) -> _Pair | None:
    """The newest configuration under which both sides were made; else the newest of each."""
    before = [made.step_config_id for made in older if made.artifact_type is kind]
    after = [made.step_config_id for made in newer if made.artifact_type is kind]
    if not before or not after:
        return None
    shared = next((config_id for config_id in after if config_id in before), None)
    return _Pair(before[0], after[0]) if shared is None else _Pair(shared, shared)


@dataclass(frozen=True, slots=True)
class _Both:
    """What the two versions have of a kind."""

    before: bytes
    after: bytes
    is_same_configuration: bool


@dataclass(frozen=True, slots=True)
class _Sides:
    """All that is needed to compare two versions."""

    place: tuple[str, str, int, str, int, str]
    """The first fields of the `VersionDiff`."""
    texts: _Both
    chunks: _Both | None
    context: int

    @property
    def size(self) -> int:
        return sum(len(both.before) + len(both.after) for both in (self.texts, self.chunks) if both is not None)


async def _texts(place: Place, older: Version, newer: Version, made: Mapping[str, Sequence[Made]]) -> _Both:
    for version in (older, newer):
        see_that_it_is_parsed(place, version, made[version.hash])
    both = await _read_both(ArtifactType.PARSED_MD, older, newer, made)
    assert both is not None, "both are parsed"
    return both


async def _chunks(older: Version, newer: Version, made: Mapping[str, Sequence[Made]]) -> _Both | None:
    return await _read_both(ArtifactType.CHUNKS, older, newer, made)


async def _read_both(
    kind: ArtifactType, older: Version, newer: Version, made: Mapping[str, Sequence[Made]]
) -> _Both | None:
    pair = _configurations(kind, made[older.hash], made[newer.hash])
    if pair is None:
        return None
    before, after = await asyncio.gather(_read(older, kind, pair.older), _read(newer, kind, pair.newer))
    return _Both(before, after, pair.is_same)


def compared_as_json(sides: _Sides) -> bytes:
    """Compare, and write the `VersionDiff` down."""
    text = _diff_texts(sides)
    found = VersionDiff(*sides.place, text, _diff_chunks(sides.chunks) if sides.chunks else None)
    return json.dumps(asdict(found), ensure_ascii=False, separators=(",", ":")).encode()


_COMPARED_AS_JSON: Final = f"{compared_as_json.__module__}.{compared_as_json.__name__}"


def _diff_texts(sides: _Sides) -> TextDiff:
    uri, _, older, _, newer, _ = sides.place
    # A newline in a URI would begin a line that looks like one of the diff.
    names = tuple(f"{visible(uri)} (version {version})" for version in (older, newer))
    lines = unified(sides.texts.before.decode(), sides.texts.after.decode(), names, sides.context)
    changes = Counter(line[:1] for line in lines[2:])
    return TextDiff(changes["+"], changes["-"], "\n".join(lines), sides.texts.is_same_configuration)


def _diff_chunks(both: _Both) -> ChunkDiff:
    chunks = merged_chunks(json.loads(both.before), json.loads(both.after))
    counts = Counter(chunk.change for chunk in chunks)
    kept, added, removed = (counts[change] for change in ChunkChange)
    return ChunkDiff(kept, added, removed, chunks, both.is_same_configuration)


def merged_chunks(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[DiffedChunk]:
    """The chunks of both versions, once each: in the order of the newer one, a removed chunk where it stood.

    A chunk is kept if its id is in both, wherever: the same text below the same headings has the same vector.
    """
    old_ids, new_ids = {chunk["id"] for chunk in before}, {chunk["id"] for chunk in after}
    removed_after: dict[str | None, list[DiffedChunk]] = {}
    previous: str | None = None
    for chunk in before:
        if chunk["id"] in new_ids:
            previous = chunk["id"]
        else:
            removed_after.setdefault(previous, []).append(_diffed(chunk, ChunkChange.REMOVED))
    merged = removed_after.get(None, [])
    for chunk in after:
        change = ChunkChange.KEPT if chunk["id"] in old_ids else ChunkChange.ADDED
        merged += [_diffed(chunk, change), *removed_after.get(chunk["id"], [])]
    return merged


def _diffed(chunk: Mapping[str, Any], change: ChunkChange) -> DiffedChunk:
    where: Mapping[str, Any] = chunk["metadata"]
    return DiffedChunk(
        change=change,
        id=chunk["id"],
        headings=list(where.get("headings") or ()),
        page_numbers=list(where.get("page_numbers") or ()),
        content=None if change is ChunkChange.KEPT else chunk["content"],
    )


async def _read(version: Version, kind: ArtifactType, config_id: int) -> bytes:
    content = await get_artifacts().read(version.hash, kind, config_id)
    if len(content) > LARGEST:
        raise TooMuchWorkError(
            f"comparing version {version.version}", f"would mean to read more than {LARGEST >> 20} MiB of its {kind}"
        )
    return content
