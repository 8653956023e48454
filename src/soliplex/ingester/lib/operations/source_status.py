"""Comparing what a client has with what is stored, in one go: which documents are new, changed, unchanged or stale."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.operations.deletion import delete_uris
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.pieces import PIECE, in_pieces
from soliplex.ingester.lib.storable import checked_name, see_storable_text

_PREFIXES: Final = ("sha256", "sha-256", "sha", "xx", "md5", "etag")


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The status of each URI that was sent, and how many that were not sent were deleted."""

    status: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    deleted_count: int = 0


@dataclass(frozen=True, slots=True)
class _Declared:
    """What the client says that the content at a URI is."""

    sha256: str
    etag: str


async def source_status(source: str, hashes: Mapping[str, Any], *, delete_stale: bool = False) -> SourceStatus:
    """The status of each URI. With `delete_stale`, the source's URIs that were not sent are deleted.

    A hash is a text, or an object with `sha256` and `etag`.
    """
    name = checked_name("source", source)
    status: dict[str, dict[str, str]] = {}
    async for piece in in_pieces(hashes.items()):
        status.update(await _status_of(name, {uri: _declared(uri, value) for uri, value in piece}))
    if not delete_stale:
        return SourceStatus(status)
    return SourceStatus(status, (await delete_uris(name, await _stale_uris(name, status))).document_uris)


async def _status_of(source: str, declared: Mapping[str, _Declared]) -> dict[str, dict[str, str]]:
    see_storable_text("hashes", "".join(declared))
    stored = {
        row["uri"]: row["doc_hash"] for row in await Database.read(SQL.stored_uris(source=source, uris=list(declared)))
    }
    etags = await _etags([stored[uri] for uri, sent in declared.items() if sent.etag and uri in stored])
    return {uri: _compare(sent, stored.get(uri), etags) for uri, sent in declared.items()}


async def _stale_uris(source: str, sent: Container[str]) -> list[str]:
    stale: list[str] = []
    after = ""
    while rows := await Database.read(SQL.uris_of_source(source=source, after=after, most=PIECE)):
        stale += [row["uri"] for row in rows if row["uri"] not in sent]
        after = rows[-1]["uri"]
    return stale


def _declared(uri: str, value: Any) -> _Declared:
    match value:
        case str():
            return _Declared(value, "")
        case None:
            return _Declared("", "")
        case {**facts}:
            sha256, etag = facts.get("sha256"), facts.get("etag")
            if isinstance(sha256, str | None) and isinstance(etag, str | None):
                return _Declared(sha256 or "", etag or "")
        case _:
            pass
    raise InvalidInputError("hashes", f'the value of {uri!r} must be a hash, or {{"sha256": "...", "etag": "..."}}')


async def _etags(hashes: list[str]) -> dict[str, str]:
    if not hashes:
        return {}
    return {row["hash"]: row["etag"] for row in await Database.read(SQL.etags_of_documents(hashes=hashes))}


def _compare(sent: _Declared, stored_hash: str | None, etags: Mapping[str, str]) -> dict[str, str]:
    if stored_hash is None:
        return {"hash": sent.sha256, "status": "new"}
    if sent.sha256 and _bare(sent.sha256) == _bare(stored_hash):
        return {"hash": sent.sha256, "status": "matched"}
    if sent.etag and sent.etag == etags.get(stored_hash):
        return {"hash": sent.sha256 or stored_hash, "status": "matched"}
    return {"source_hash": sent.sha256, "stored_hash": stored_hash, "status": "mismatch"}


def _bare(text: str) -> str:
    """The digits of a hash, without the name of its algorithm before a dash or colon."""
    lowered = text.strip().lower()
    for prefix in _PREFIXES:
        for mark in ("-", ":"):
            if lowered.startswith(prefix + mark):
                return lowered[len(prefix) + 1 :]
    return lowered
