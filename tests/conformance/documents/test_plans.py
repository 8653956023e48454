"""How the databases run the statements about documents: by index, whatever the number of documents."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.statements import Statements
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.wf.sql import SQL as ENGINE_SQL

TABLES: Final = (
    "documentbatch|document|documenturi|documenturihistory|documentremoval|workflowrun|runstep|lifecyclehistory"
)
NAMES: Final = ["a", "b"]
IDS: Final = [1, 2]

CASES: Final[list[tuple[Statements, str, dict[str, Any]]]] = [
    (SQL, "stored_uris", {"uris": NAMES, "source": "s"}),
    (SQL, "end_of_stretch", {"source": "s", "uri": "a", "steps": 10}),
    (
        SQL,
        "documents_in_stretch",
        {
            "source": "s",
            "uri": "a",
            "last_source": "s",
            "last_uri": "b",
            "only": None,
            "first": "%a%",
            "second": "%a%",
            "third": "%a%",
            "most": 10,
        },
    ),
    (SQL, "end_of_stretch_of_batch", {"batch_id": 1, "id": 1, "steps": 10}),
    (
        SQL,
        "documents_in_stretch_of_batch",
        {"batch_id": 1, "id": 1, "last_id": 2, "first": "%a%", "second": "%a%", "third": "%a%", "most": 10},
    ),
    (SQL, "statuses_of_runs", {"ids": IDS}),
    (SQL, "etags_of_documents", {"hashes": NAMES}),
    (SQL, "failed_documents", {"source": "s", "beginning": "/a/", "most": 10}),
    (SQL, "reasons_to_wait", {"group_id": 1, "most": 10}),
    (SQL, "runs_with_nothing_to_index", {"group_id": 1, "most": 10}),
    (SQL, "uris_below", {"source": "s", "beginning": "/a/", "after": "a", "most": 10}),
    (SQL, "uris_of_source", {"source": "s", "after": "a", "most": 10}),
    (SQL, "uris_by_name", {"uris": NAMES, "source": "s"}),
    (SQL, "uris_of_documents", {"hashes": NAMES}),
    (SQL, "hashes_without_uris", {"hashes": NAMES}),
    (SQL, "lock_documents", {"hashes": NAMES}),
    (SQL, "lock_uris", {"ids": IDS}),
    (SQL, "lock_uri", {"uri": "a", "source": "s"}),
    (SQL, "batch_documents", {"batch_id": 1}),
    (SQL, "batch_documents_without_run", {"batch_id": 1, "group_id": 1}),
    (SQL, "newest_group", {"batch_id": 1, "workflow_id": "w", "param_id": "p"}),
    (SQL, "newest_place_of_document", {"hash": "a"}),
    (SQL, "delete_history_of_uris", {"ids": IDS}),
    (SQL, "delete_history_of_documents", {"hashes": NAMES}),
    (SQL, "delete_uris", {"ids": IDS}),
    (SQL, "delete_documents", {"hashes": NAMES}),
    (SQL, "removals_of", {"hash": "a"}),
    (SQL, "removals_begun", {"hashes": NAMES, "target": "t"}),
    (SQL, "drop_removals", {"hashes": NAMES, "target": "t"}),
    (SQL, "living_documents", {"hashes": NAMES}),
    (SQL, "known_documents", {"hashes": NAMES}),
    (SQL, "places_of_contents", {"hashes": NAMES}),
    (SQL, "contents_at_places", {"hashes": NAMES}),
    (SQL, "databases_of_runs", {"hashes": NAMES}),
    (SQL, "find_batches", {"ids": IDS}),
    (SQL, "lock_known_documents", {"hashes": NAMES}),
    (SQL, "lock_known_uris", {"places": '[["a", "s"], ["b", "s"]]'}),
    (SQL, "lock_runs_of_documents", {"doc_ids": NAMES}),
    (SQL, "resources_of_runs", {"ids": IDS}),
    (ENGINE_SQL, "delete_edges_of_runs", {"ids": IDS}),
    (ENGINE_SQL, "delete_steps_of_runs", {"ids": IDS}),
    (ENGINE_SQL, "delete_events_of_runs", {"ids": IDS}),
    (ENGINE_SQL, "delete_runs", {"ids": IDS}),
]


@pytest.mark.parametrize(("statements", "name", "parameters"), CASES, ids=[case[1] for case in CASES])
async def test_a_statement_finds_its_rows_by_index(
    database: type[Database], statements: Statements, name: str, parameters: dict[str, Any]
) -> None:
    statement = getattr(statements, name)
    async with Database.engine().connect() as connection:
        if Database.is_postgres():
            # Of an empty table reading all of it is best; what is asked is whether there is another way.
            await connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            values: Any = tuple(parameters[each] for each in statement.postgres_order)
            rows = await connection.exec_driver_sql(f"EXPLAIN {statement.postgres}", values)
        else:
            values = {key: json.dumps(value) if isinstance(value, list) else value for key, value in parameters.items()}
            rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement.sqlite}", values)
        plan = "\n".join(str(row[-1]) for row in rows.all())
    assert not re.search(rf"Seq Scan on ({TABLES})\b", plan), plan
    assert not re.search(r"^SCAN (\w+)\b(?!.*(USING|VIRTUAL))", plan, re.MULTILINE), plan
