"""What differs between two versions: their text line by line, and their chunks by identity."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import ArtifactType
from soliplex.ingester.lib.operations.errors import NotParsedError, VersionGoneError
from soliplex.ingester.lib.operations.made import Made, stored_artifacts
from soliplex.ingester.lib.operations.sql import SQL, read
from soliplex.ingester.lib.operations.versions.finding import Place, Version, find_place, find_version
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.visible import visible

CONTEXT: Final = 3
"""Lines that are shown around a change."""


class ChunkChange(StrEnum):
    """What became of a chunk."""

    KEPT = "kept"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class TextDiff:
    """The lines that differ, as `diff -u` shows them."""

    added_lines: int
    removed_lines: int
    unified: str
    is_same_configuration: bool
    """Whether both were parsed in the same way; if not, the ways may differ and not the documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffedChunk:
    """A chunk of either version, and where it stands."""

    change: ChunkChange
    id: str
    headings: list[str]
    page_numbers: list[int]
    content: str | None
    """None for a chunk that is kept."""


@dataclass(frozen=True, slots=True)
class ChunkDiff:
    """The chunks of both versions in reading order; what is kept needs no new vector."""

    kept: int
    added: int
    removed: int
    chunks: list[DiffedChunk]
    is_same_configuration: bool


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """What differs between two versions of a URI."""

    uri: str
    source: str
    from_version: int
    from_hash: str
    to_version: int
    to_hash: str
    text: TextDiff
    chunks: ChunkDiff | None
    """None where one of the two was never cut into chunks."""


async def diff_versions(
    uri: str,
    source: str,
    from_version: int | None = None,
    to_version: int | None = None,
    *,
    context: int = CONTEXT,
) -> VersionDiff:
    """Compare two versions: by default the current one with the one before it."""
    place = await find_place(uri, source)
    newer = await find_version(place, place.version if to_version is None else to_version)
    older = await find_version(place, await _before(place, newer) if from_version is None else from_version)
    made = await stored_artifacts((older.hash, newer.hash))
    return VersionDiff(
        uri,
        source,
        older.version,
        older.hash,
        newer.version,
        newer.hash,
        await _diff_texts(place, older, newer, made, context),
        await _diff_chunks(older, newer, made),
    )


async def _before(place: Place, newer: Version) -> int:
    rows = await read(SQL.version_before(uri_id=place.id, version=newer.version))
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
    """The newest that both were made under; else the newest of each."""
    before = [made.step_config_id for made in older if made.artifact_type is kind]
    after = [made.step_config_id for made in newer if made.artifact_type is kind]
    if not before or not after:
        return None
    shared = next((config_id for config_id in after if config_id in before), None)
    return _Pair(before[0], after[0]) if shared is None else _Pair(shared, shared)


async def _diff_texts(
    place: Place, older: Version, newer: Version, made: Mapping[str, Sequence[Made]], context: int
) -> TextDiff:
    for version in (older, newer):
        _see_that_it_is_parsed(place, version, made[version.hash])
    pair = _configurations(ArtifactType.PARSED_MD, made[older.hash], made[newer.hash])
    assert pair is not None, "both are parsed"
    before, after = await asyncio.gather(
        _read(older.hash, ArtifactType.PARSED_MD, pair.older), _read(newer.hash, ArtifactType.PARSED_MD, pair.newer)
    )
    # A newline in a URI would begin a line that looks like one of the diff.
    names = tuple(f"{visible(place.uri)} (version {version.version})" for version in (older, newer))
    lines = await asyncio.to_thread(unified, before.decode(), after.decode(), names, context)
    changes = [line[:1] for line in lines[2:]]
    return TextDiff(changes.count("+"), changes.count("-"), "\n".join(lines), pair.is_same)


def _see_that_it_is_parsed(place: Place, version: Version, made: Sequence[Made]) -> None:
    if any(each.artifact_type is ArtifactType.PARSED_MD for each in made):
        return
    if not version.is_known:
        raise VersionGoneError(place.uri, version.version, "the document was deleted since")
    raise NotParsedError(place.uri, version.version, "it was never parsed, or what was parsed of it has been deleted")


def unified(before: str, after: str, names: Sequence[str], context: int = CONTEXT) -> list[str]:
    """The lines of a unified diff, without line ends; none where the texts are the same."""
    old, new = before.splitlines(), after.splitlines()
    return list(difflib.unified_diff(old, new, *names, lineterm="", n=context))


async def _diff_chunks(older: Version, newer: Version, made: Mapping[str, Sequence[Made]]) -> ChunkDiff | None:
    pair = _configurations(ArtifactType.CHUNKS, made[older.hash], made[newer.hash])
    if pair is None:
        return None
    before, after = await asyncio.gather(
        _read(older.hash, ArtifactType.CHUNKS, pair.older), _read(newer.hash, ArtifactType.CHUNKS, pair.newer)
    )
    return await asyncio.to_thread(_compared, before, after, is_same_configuration=pair.is_same)


def _compared(before: bytes, after: bytes, *, is_same_configuration: bool) -> ChunkDiff:
    chunks = merged_chunks(json.loads(before), json.loads(after))
    counts = Counter(chunk.change for chunk in chunks)
    kept, added, removed = (counts[change] for change in ChunkChange)
    return ChunkDiff(kept, added, removed, chunks, is_same_configuration)


def merged_chunks(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[DiffedChunk]:
    """The chunks of both, once each: in the order of the newer, what was removed where it stood.

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


async def _read(doc_hash: str, kind: ArtifactType, config_id: int) -> bytes:
    return await get_artifacts().read(doc_hash, kind, config_id)
