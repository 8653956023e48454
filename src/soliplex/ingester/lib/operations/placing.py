"""Where contents live, and which RAG databases say so.

One content may live at several places: under several URIs, in several sources and batches. A RAG database holds it
once, with all its places. Which databases hold a content is known by the runs that stored it and, after these were
deleted, by the RAG artifact that each store leaves behind.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable

from soliplex.ingester.lib import rag
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import ArtifactType, Database
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.rag.metadata import Placement
from soliplex.ingester.lib.rag.writing import Others
from soliplex.ingester.lib.storage import get_artifacts

_log = logging.getLogger(__name__)


async def places_of_contents(hashes: Iterable[str]) -> dict[str, list[Placement]]:
    """Where these documents live, the place that came last first; without those that live nowhere."""
    places: defaultdict[str, list[Placement]] = defaultdict(list)
    if wanted := sorted(set(hashes)):
        for row in await Database.read(SQL.places_of_contents(hashes=wanted)):
            places[row["doc_hash"]].append(Placement(row["uri"], row["source"], row["batch_id"]))
    return dict(places)


async def others_at_places(hashes: Collection[str]) -> Others:
    """What became of contents that stood before at the places where these documents live now."""
    if not hashes:
        return Others()
    rows = await Database.read(SQL.contents_at_places(hashes=sorted(hashes)))
    others = {row["hash"] for row in rows} - set(hashes)
    living = await places_of_contents(others)
    return Others(sorted(others - living.keys()), living)


async def databases_of(hashes: Collection[str]) -> set[tuple[str, str]]:
    """The resource keys of RAG databases that may hold these documents, as pairs of hash and key."""
    if not hashes:
        return set()
    rows = await Database.read(SQL.databases_of_runs(hashes=sorted(hashes)))
    return {(row["doc_id"], row["resource_key"]) for row in rows} | await databases_by_artifacts(hashes)


async def databases_by_artifacts(hashes: Collection[str]) -> set[tuple[str, str]]:
    """As `databases_of`, by the RAG artifacts alone: for documents whose rows may be gone."""
    artifacts, found = get_artifacts(), set[tuple[str, str]]()
    for doc_hash, config_ids in (await artifacts.configs_of(ArtifactType.RAG, hashes)).items():
        for config_id in config_ids:
            try:
                noted = json.loads(await artifacts.read(doc_hash, ArtifactType.RAG, config_id))
                found.add((doc_hash, rag.rag_resource_key(noted["database"])))
            except NotFoundError:
                continue  # the artifact was removed meanwhile
            except (ValueError, KeyError, TypeError) as exc:
                words = "what a store noted of document %s (step config %d) cannot be read: %s"
                _log.warning(words, doc_hash, config_id, exc)
    return found
