"""What handlers of documents may ask for by name, beyond what the engine knows itself.

doc       the document, as a `Document`
places    where it lives, as `DocumentURI`s, the place it was put last first
source    the source of the first of these
earlier   the steps before this one, by type: the id of their configuration, and their parameters; without those that
          were skipped, so that of two parse steps in two branches the one that parsed is found
chat      the client of the language model (`lib/llm`); None where the settings name none
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from soliplex.ingester.lib.llm import Chat, open_chat
from soliplex.ingester.lib.models import Database, Document, DocumentURI, loaded
from soliplex.ingester.lib.models.transactions import Rows, json_of
from soliplex.ingester.lib.wf.handlers import provide
from soliplex.ingester.lib.wf.work import ClaimedStep
from soliplex.ingester.lib.wiring import current_wiring
from soliplex.ingester.lib.workflow import executing
from soliplex.ingester.lib.workflow.sql import SQL


async def _documents(steps: Sequence[ClaimedStep]) -> list[Document | None]:
    executing.note(steps)
    rows = await Database.read(SQL.documents_by_hash(hashes=_hashes(steps)))
    found = {
        row["hash"]: loaded(
            Document,
            {
                "hash": row["hash"],
                "mime_type": row["mime_type"],
                "file_size": row["file_size"],
                "doc_meta": json_of(row, "doc_meta"),
            },
        )
        for row in rows
    }
    return [found.get(step.run["doc_id"]) for step in steps]


async def _places(steps: Sequence[ClaimedStep]) -> list[list[DocumentURI]]:
    places: defaultdict[str, list[DocumentURI]] = defaultdict(list)
    for row in await Database.read(SQL.places_of_documents(hashes=_hashes(steps))):
        places[row["doc_hash"]].append(loaded(DocumentURI, {name: row[name] for name in row.keys()}))  # noqa: SIM118  rows iterate over values
    return [places[step.run["doc_id"]] for step in steps]


async def _sources(steps: Sequence[ClaimedStep]) -> list[str | None]:
    return [places[0].source if places else None for places in await _places(steps)]


class Earlier(NamedTuple):
    """A step before the one whose handler asks."""

    config_id: int
    params: dict[str, Any]


async def _earlier(steps: Sequence[ClaimedStep]) -> list[dict[str, Earlier]]:
    rows = await Database.read(SQL.configs_of_runs(ids=sorted({step.run_id for step in steps})))
    return [_before(step, rows) for step in steps]


def _before(step: ClaimedStep, rows: Rows) -> dict[str, Earlier]:
    mine = [
        row
        for row in rows
        if row["workflow_run_id"] == step.run_id
        and row["workflow_step_number"] < step.row["workflow_step_number"]
        and not row["is_skipped"]
    ]
    return {row["step_type"]: Earlier(row["step_config_id"], json_of(row, "config_json") or {}) for row in mine}


async def _chats(steps: Sequence[ClaimedStep]) -> list[Chat | None]:
    return [current_wiring().made(open_chat)] * len(steps)


def _hashes(steps: Sequence[ClaimedStep]) -> list[str]:
    return sorted({step.run["doc_id"] for step in steps if step.run["doc_id"] is not None})


provide("doc", _documents)
provide("places", _places)
provide("source", _sources)
provide("earlier", _earlier)
provide("chat", _chats)
