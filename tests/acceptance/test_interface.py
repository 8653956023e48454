"""Every route that clients in the field call, in every spelling and with its values in every place they use.

Against `si-cli serve` in a process, with its worker, on both databases. What a route does in detail is shown
beside the others of its resource; here each is called as it is written, and gives the status and fields it promises.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import BOTH
from tests.support.databases import PostgresServer
from tests.support.ingestions import API, expect, new_batch, start, upload, upload_some, wait_until_ended
from tests.support.serving import serving

PARAMETERS = "id: {id}\nname: Mine\nconfig:\n  store: {{data_dir: my_db}}\n"
PAGE = {"items", "total", "page", "rows_per_page", "total_pages"}
INGESTED = {"batch_id", "document_uri", "document_hash", "source", "uri_id"}
STATS = {
    *("run_group_id", "total_runs", "completed", "running", "pending", "failed", "cancelled", "error"),
    *("average_duration", "avg_duration", "min_duration", "max_duration", "group_status", "status_counts"),
    *("PENDING", "RUNNING", "COMPLETED", "ERROR", "FAILED", "CANCELLED"),
}
ACTIVITY = {
    *("workflow_run_id", "doc_hash", "doc_uri", "run_group_id", "param_definition_id", "step_type", "start_date"),
    "elapsed_seconds",
}
DETAILED = {"workflow_run", "steps", "document_info"}
LISTED = {"id", "name", "source"}


@dataclass(frozen=True, slots=True)
class Field:
    """A server, a batch of three documents that went through test_wf, and one of them through test_wf_fail."""

    client: httpx.Client
    names: dict[str, Any]

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.client.get(f"{API}{path.format(**self.names)}", headers=headers)

    def post(self, path: str, data: dict[str, Any] | None = None, status: int = 200) -> Any:
        return expect(self.client.post(f"{API}{path.format(**self.names)}", data=data), status)


@pytest.fixture(scope="module", params=BOTH)
def database_of_all(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("interface") / "documents.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite+aiosqlite:///{path}"
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        with server.copy_of(request.getfixturevalue("postgres_template")) as url:
            yield url


@pytest.fixture(scope="module")
def field(database_of_all: str, filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    folder = tmp_path_factory.mktemp("serving")
    shutil.copytree(filled, folder / "data" / "lancedb" / "papers")
    settings = {"DOC_DB_URL": database_of_all, "USER_PARAM_DIR": str(folder / "user_params")}
    with serving(folder, environment=settings) as server, server.client() as client:
        batch_id = new_batch(client, "field")
        first, *_ = upload_some(client, batch_id, 3, "field")
        group_id, failed_id = start(client, batch_id), start(client, batch_id, "test_wf_fail")
        wait_until_ended(client, [group_id, failed_id])
        run = expect(client.get(f"{API}/workflow/run-groups/{group_id}/runs"))[0]["id"]
        client.post(f"{API}/workflow/param-sets", data={"yaml_content": PARAMETERS.format(id="mine")})
        yield Field(client, {"batch": batch_id, "hash": first, "group": group_id, "failed": failed_id, "run": run})


# A path, and the fields of its answer, or of each row of it.
READ: dict[str, set[str]] = {
    "/batch/": {"id", "name", "source", "start_date", "completed_date", "batch_params", "duration"},
    "/batch/?page=1&rows_per_page=1": PAGE,
    "/batch/status?batch_id={batch}": {
        *("batch", "document_count", "workflow_count", "workflows", "parsed", "remaining"),
    },
    "/batch/unfinished?source=field&name=Q4": {"batch_id"},
    "/batch/{batch}/steps": {"id", "workflow_run_id", "step_type", "status"},
    "/document/?source=field": {"id", "doc_hash", "uri", "source", "version", "batch_id"},
    "/document/?batch_id={batch}": {"id", "doc_hash", "uri", "source", "version", "batch_id"},
    "/document/find?pattern=PAPERS": {"id", "doc_hash", "uri", "source"},
    "/document/{hash}": {"document", "uris"},
    "/document/{hash}/history": {"id", "doc_uri_id", "version", "hash", "process_date", "action", "batch_id"},
    "/document/validate_storage?batch_id={batch}": {"batch_id", "total", "valid", "missing", "missing_hashes"},
    "/workflow/": {"id", "run_group_id", "doc_id", "status", "duration"},
    "/workflow/?batch_id={batch}&include_steps=true&include_doc_info=true": DETAILED,
    "/workflow/?page=1&rows_per_page=2": PAGE,
    "/workflow/by-status?status=COMPLETED&batch_id={batch}": {"id", "status"},
    "/workflow/by-status?status=FAILED&include_doc_info=true&page=1": PAGE,
    "/workflow/definitions": {"id", "name", "steps"},
    "/workflow/param-sets": LISTED,
    "/workflow/param_sets": LISTED,
    "/workflow/param-sets/target/my_db": LISTED,
    "/workflow/param_sets/target/my_db": LISTED,
    "/workflow/steps?status=FAILED": {"id", "status_message", "retry", "retries"},
    "/workflow/steps?status=COMPLETED&batch_id={batch}&page=1": PAGE,
    "/workflow/run-groups": {"id", "status", "workflow_definition_id", "param_definition_id"},
    "/workflow/run_groups": {"id", "status", "workflow_definition_id", "param_definition_id"},
    "/workflow/run-groups/{group}": {"id", "status", "batch_id"},
    "/workflow/run_groups/{group}": {"id", "status", "batch_id"},
    "/workflow/run-groups/{group}/runs": {"id", "run_group_id"},
    "/workflow/run_groups/{group}/runs": {"id", "run_group_id"},
    "/workflow/run-groups/{group}/stats": STATS,
    "/workflow/run_groups/{group}/stats": STATS,
    "/workflow/runs?batch_id={batch}": {"id", "run_group_id"},
    "/workflow/runs/{run}": {"id", "status", "steps"},
    "/workflow/runs/{run}/lifecycle": {"event", "start_date", "status"},
    "/workflow/status/recent?interval=hour": ACTIVITY,
    "/workflow/status/recent?interval=day&workflow_status=COMPLETED": ACTIVITY,
    "/stats/durations?run_group_id={group}": {
        *("step_type", "count", "longest", "shortest", "average", "pages", "pages_per_min", "total_duration"),
        "wall_clock_time",
    },
    "/stats/step-stats?run_group_id={group}": {
        *("name", "param_definition_id", "workflow_step_name", "status", "count", "pages"),
    },
    "/stats/run-group-details/{group}": {"run_group", "stats"},
    "/stats/throughput": set(),
    "/stats/rates": set(),
    "/stats/processing-rates": {"workflow_definition_id", "param_definition_id", "documents", "rates"},
    "/stats/workers": {"workers", "slots", "running_steps", "utilization"},
    "/stats/batches": set(),
    "/lancedb/list": {"status", "lancedb_dir", "database_count", "databases"},
    "/lancedb/info?db=papers": {
        *("status", "path", "versions", "embeddings", "documents", "chunks", "vector_index", "tables"),
    },
    "/lancedb/documents?db=papers&limit=2&offset=1&filter=title%20LIKE%20'%25Report%25'": {
        *("status", "path", "document_count", "documents"),
    },
    "/lancedb/vacuum?db=papers": {"status"},
    "/sync-state/git:unknown": {"source_id", "last_commit_sha", "last_sync_date", "branch", "sync_metadata"},
    "/workers": {"id", "first_checkin", "last_checkin"},
    "/locks?page=1": PAGE,
}


@pytest.mark.parametrize("path", READ)
def test_a_route_that_is_read_gives_its_fields(field: Field, path: str) -> None:
    told = expect(field.get(path))
    rows: list[Any] = told if isinstance(told, list) else [told]
    assert rows, "it should have something to show"
    assert all(set(row) >= READ[path] for row in rows), told


UNKNOWN = [
    *("/batch/status?batch_id=4711", "/batch/4711/steps", "/document/?batch_id=4711", "/document/sha256-x"),
    *("/document/sha256-x/history", "/document/validate_storage?batch_id=4711", "/workflow/definitions/nothing"),
    *("/workflow/param-sets/nothing", "/workflow/param_sets/nothing", "/workflow/run-groups/4711"),
    *("/workflow/run_groups/4711/stats", "/workflow/run-groups/4711/runs", "/workflow/runs/4711"),
    *("/workflow/runs/4711/lifecycle", "/lancedb/info?db=nothing", "/lancedb/vacuum?db=nothing"),
    *("/lancedb/documents?db=nothing", "/nothing", "/workflow/nothing/at/all", "/stats/durations?run_group_id=4711"),
]


@pytest.mark.parametrize("path", UNKNOWN)
def test_what_is_not_there_is_a_404_in_json(field: Field, path: str) -> None:
    assert expect(field.get(path), 404)["error"]


@pytest.mark.parametrize(
    "path", ["/workflow/definitions/batch", "/workflow/param-sets/mine", "/workflow/param_sets/mine"]
)
def test_a_file_is_yaml_unless_json_is_asked_for(field: Field, path: str) -> None:
    assert field.get(path).headers["content-type"].startswith("text/yaml")
    assert expect(field.get(path, accept="application/json"))["id"] == path.rpartition("/")[2]


def test_documents_are_asked_for_by_source_or_batch(field: Field) -> None:
    assert expect(field.get("/document/"), 400)["error"].startswith("source: ")


@pytest.mark.parametrize("route", ["ingest-document", "upload"])
def test_a_document_is_taken_in_under_both_names(field: Field, route: str) -> None:
    batch_id, other = new_batch(field.client, route), new_batch(field.client, route)

    def send(batch_id: int, **fields: str) -> httpx.Response:
        data = {"source_uri": "/a", "source": route, "batch_id": str(batch_id), "mime_type": "text/plain", **fields}
        return field.client.post(f"{API}/document/{route}", data=data, files={"file": ("a", b"paper")})

    assert expect(send(batch_id, doc_meta="{}", priority="0"), 201).keys() == INGESTED
    assert expect(send(other), 203).keys() == INGESTED
    assert expect(send(batch_id, doc_meta="nonsense"), 400)["error"].startswith("doc_meta: ")
    assert expect(send(4711), 404)["error"] == "batch 4711 does not exist"


@pytest.mark.parametrize("place", ["params", "json", "data", "files"])
def test_a_uri_is_deleted_wherever_it_is_named(field: Field, place: str) -> None:
    upload(field.client, new_batch(field.client, place), "/a", place.encode(), place)
    named: Any = {"uri": "/a", "source": place}
    if place == "files":
        named = {name: (None, text) for name, text in named.items()}
    request: Any = {place: named}
    told = expect(field.client.request("DELETE", f"{API}/document/by-uri", **request))
    assert told.keys() == {"message", "uri", "source", "statistics"}
    assert (told["statistics"]["deleted_documents"], told["statistics"]["total_deleted"]) == (1, 3)
    expect(field.client.request("DELETE", f"{API}/document/by-uri", **request), 404)


@pytest.mark.parametrize("place", ["params", "data", "json", "files"])
def test_a_group_is_retried_wherever_it_is_named(field: Field, place: str) -> None:
    batch_id = new_batch(field.client, f"retry {place}")
    upload_some(field.client, batch_id, 1, f"retry {place}")
    group_id = start(field.client, batch_id, "test_wf_fail")
    wait_until_ended(field.client, [group_id])
    request: Any = {place: {"run_group_id": (None, str(group_id)) if place == "files" else group_id}}
    told = expect(field.client.post(f"{API}/workflow/retry", **request), 201)
    assert told == {"run_group_id": group_id, "reset_steps": 3, "reset_runs": 1}


def test_orphans_are_cleaned_up(field: Field) -> None:
    told = field.post("/document/cleanup-orphans")
    assert told["statistics"].keys() >= {"deleted_documents", "deleted_history"}


@pytest.mark.parametrize("name", ["workflow_definition_id", "workflow_definiton_id"])
def test_a_run_is_started_for_a_document_under_both_spellings(field: Field, name: str) -> None:
    form = {"doc_id": field.names["hash"], name: "test_wf", "param_id": "test_base", "priority": 1}
    run, steps = field.post("/workflow/", form, 201)
    assert (run["workflow_definition_id"], run["priority"], len(steps)) == ("test_wf", 1, 5)


def test_only_unparsed_documents_are_started(field: Field) -> None:
    batch_id = new_batch(field.client, "unparsed")
    upload_some(field.client, batch_id, 2, "unparsed")
    group_id = start(field.client, batch_id)
    upload(field.client, batch_id, "/new", b"new", "unparsed")
    form = {"batch_id": batch_id, "workflow_definition_id": "test_wf", "param_id": "test_base", "only_unparsed": "true"}
    told = field.post("/batch/start-workflows", form, 201)
    assert (told["message"], told["workflows"], told["run_group"]["id"]) == ("Workflows started", 1, group_id)


@pytest.mark.parametrize("spelling", ["param-sets", "param_sets"])
def test_a_parameter_set_is_saved_and_deleted_in_both_spellings(field: Field, spelling: str) -> None:
    place = f"{API}/workflow/{spelling}"
    content = PARAMETERS.format(id=spelling)
    assert field.post(f"/workflow/{spelling}", {"yaml_content": content}, 201).keys() == {"message", "id", "file_path"}
    field.post(f"/workflow/{spelling}", {"yaml_content": content}, 409)
    field.post(f"/workflow/{spelling}", {"yaml_content": "id: ["}, 400)
    expect(field.client.delete(f"{place}/default"), 403)
    expect(field.client.delete(f"{place}/{spelling}"))
    expect(field.client.delete(f"{place}/{spelling}"), 404)


@pytest.mark.parametrize("spelling", ["run-groups", "run_groups"])
def test_a_group_is_cancelled_and_deleted_in_both_spellings(field: Field, spelling: str) -> None:
    batch_id = new_batch(field.client, spelling)
    upload_some(field.client, batch_id, 1, spelling)
    group_id = start(field.client, batch_id)
    place = f"{API}/workflow/{spelling}/{group_id}"
    assert expect(field.client.post(f"{place}/cancel")).keys() == {"cancelled_runs", "cancelled_steps"}
    wait_until_ended(field.client, [group_id])
    assert expect(field.client.delete(place))["statistics"]["deleted_rungroups"] == 1
    expect(field.client.delete(place), 404)


def test_a_run_is_cancelled(field: Field) -> None:
    assert field.post("/workflow/runs/{run}/cancel") == {"cancelled_runs": 0, "cancelled_steps": 0}


def test_the_state_of_a_source_is_kept_and_forgotten(field: Field) -> None:
    place = f"{API}/sync-state/gitea:admin:docs"
    expect(field.client.put(place, data={"commit_sha": "a", "branch": "trunk", "metadata": '{"x": 1}'}))
    told = expect(field.client.put(place, data={"commit_sha": "b", "metadata": '{"y": 2}'}))
    assert (told["last_commit_sha"], told["branch"], told["sync_metadata"]) == ("b", "trunk", {"x": 1, "y": 2})
    expect(field.client.delete(place))
    expect(field.client.delete(place), 404)


def test_what_a_client_has_is_compared(field: Field) -> None:
    doc_hash = field.names["hash"]
    hashes = f'{{"/papers/0.txt": {{"sha256": "{doc_hash}", "etag": ""}}, "/new": "xx:1", "/papers/1.txt": "sha256-0"}}'
    told = field.post("/source-status", {"source": "field", "hashes": hashes})
    assert {uri: row["status"] for uri, row in told.items()} == {
        "/papers/0.txt": "matched",
        "/new": "new",
        "/papers/1.txt": "mismatch",
    }
    stale = field.post("/source-status", {"source": "nowhere", "hashes": "{}", "delete_stale": "true"})
    assert stale == {"status": {}, "deleted_count": 0}


def test_a_database_is_vacuumed_by_post_too(field: Field) -> None:
    assert expect(field.client.post(f"{API}/lancedb/vacuum", params={"db": "papers"}))["status"] == "ok"


def test_documents_are_downloaded(field: Field) -> None:
    assert field.get("/document/{hash}/raw").content == b"field: paper 0"
    assert expect(field.get("/document/{hash}/artifacts")) == []


def test_what_runs_now_may_be_nothing(field: Field) -> None:
    assert isinstance(expect(field.get("/workflow/status/running")), list)


@pytest.mark.parametrize("path", ["/health", "/health/ready", "/metrics", "/docs", "/redoc", "/openapi.json"])
def test_what_stands_beside_the_api_answers(field: Field, path: str) -> None:
    assert field.client.get(path).status_code == 200


def test_events_are_a_stream(field: Field) -> None:
    with field.client.stream("GET", f"{API}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert next(answer.iter_lines()) == "retry: 2000"
