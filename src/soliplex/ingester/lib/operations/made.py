"""What was made of documents and is still stored: artifacts, by the configuration of the step that made them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from soliplex.ingester.lib.models import ArtifactType, Database
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.step_types import artifacts_of
from soliplex.ingester.lib.storage import get_artifacts


@dataclass(frozen=True, slots=True)
class Made:
    """Something that was made of a document, under one configuration."""

    artifact_type: ArtifactType
    step_config_id: int
    step_type: str


async def stored_artifacts(hashes: Iterable[str]) -> dict[str, list[Made]]:
    """The artifacts that are stored of each document, those of the newest runs first."""
    wanted = sorted(set(hashes))
    possible = await _possible(wanted)
    return {doc_hash: await _stored(doc_hash, possible[doc_hash]) for doc_hash in wanted}


def kinds_of(step_type: str) -> tuple[ArtifactType, ...]:
    """The kinds of artifacts that a step of this type makes of a document that is stored."""
    return tuple(kind for kind in artifacts_of(step_type) if kind is not ArtifactType.DOC)


async def _possible(hashes: Sequence[str]) -> dict[str, list[Made]]:
    possible: defaultdict[str, list[Made]] = defaultdict(list)
    for row in await Database.read(SQL.step_configs_of_documents(hashes=list(hashes))):
        configured = row["step_config_id"], row["step_type"]
        possible[row["doc_id"]] += [Made(kind, *configured) for kind in kinds_of(row["step_type"])]
    if any(doc_hash not in possible for doc_hash in hashes):
        # The runs of the document were deleted, but not what they made: any configuration may have made it.
        rows = await Database.read(SQL.step_configs())
        every = [Made(kind, row["id"], row["step_type"]) for row in rows for kind in kinds_of(row["step_type"])]
        possible.update({doc_hash: every for doc_hash in hashes if doc_hash not in possible})
    return possible


async def _stored(doc_hash: str, possible: Sequence[Made]) -> list[Made]:
    artifacts = get_artifacts()
    found = await asyncio.gather(
        *(artifacts.has(doc_hash, made.artifact_type, made.step_config_id) for made in possible)
    )
    return [made for made, is_there in zip(possible, found, strict=True) if is_there]
