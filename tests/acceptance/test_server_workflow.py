"""`/api/v1/workflow`: every route of it, as clients in the field call it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from soliplex.ingester.lib.models import ArtifactType, Database, Document, DocumentBatch, DocumentURI
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.operations.runs import Created
from tests.support.engine import Driver, errored, expanded, workflow

W = "/api/v1/workflow"
HASHES = tuple("sha256-" + digit * 64 for digit in "abc")


@pytest.fixture(autouse=True)
def own_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER_PARAM_DIR", str(tmp_path / "user_params"))


@pytest.fixture
async def batch(client: httpx.AsyncClient) -> int:
    """A batch of three documents."""
    async with Database.session() as session:
        batch = DocumentBatch(name="reports", source="shelf")
        session.add(batch)
        session.add_all(Document(hash=each, mime_type="text/plain", file_size=5) for each in HASHES)
        await session.flush()
        session.add_all(
            DocumentURI(doc_hash=each, uri=f"/{number}.txt", source="shelf", batch_id=batch.id)
            for number, each in enumerate(HASHES)
        )
        assert batch.id is not None
        return batch.id


@pytest.fixture
async def group(batch: int) -> Created:
    """The three documents in test_wf: one run completed, one failed, one at its first step."""
    registry = get_registry()
    runs = [ops.NewRun(doc_id=each) for each in HASHES]
    created = await ops.create_run_group(
        registry.workflow("test_wf"), registry.parameter_set("test_base"), runs, batch_id=batch
    )
    driver = Driver()
    first, second, _ = await driver.claim(3)
    await driver.finish(errored(second, "no paper", permanent=True))
    await driver.complete(first)
    while steps := [step for step in await driver.claim(10) if step.run_id == first.run_id]:
        await driver.complete(*steps)
    return created


async def test_runs_are_listed_newest_first(client: httpx.AsyncClient, group: Created, batch: int) -> None:
    runs = (await client.get(f"{W}/")).json()
    assert [run["id"] for run in runs] == group.run_ids[::-1]
    assert {run["doc_id"] for run in runs} == set(HASHES)
    assert (await client.get(f"{W}/", params={"batch_id": batch + 1})).json() == []
    of_batch = await client.get(f"{W}/runs", params={"batch_id": batch})
    assert [run["id"] for run in of_batch.json()] == group.run_ids[::-1]
    assert (await client.get(f"{W}/runs")).status_code == 422


async def test_a_page_of_runs_says_how_many_there_are(client: httpx.AsyncClient, group: Created) -> None:
    page = (await client.get(f"{W}/", params={"page": 2, "rows_per_page": 2})).json()
    assert [run["id"] for run in page["items"]] == group.run_ids[:1]
    assert {name: page[name] for name in page if name != "items"} == {
        "total": 3,
        "page": 2,
        "rows_per_page": 2,
        "total_pages": 2,
    }


async def test_runs_come_with_their_steps_and_document_when_asked(client: httpx.AsyncClient, group: Created) -> None:
    (row, *_) = (await client.get(f"{W}/", params={"include_steps": "true", "include_doc_info": "true"})).json()
    assert row["workflow_run"]["id"] == group.run_ids[-1]
    assert [step["workflow_step_number"] for step in row["steps"]] == list(range(1, len(row["steps"]) + 1))
    assert row["document_info"] == {
        "uri": "/2.txt",
        "source": "shelf",
        "file_size": 5,
        "mime_type": "text/plain",
    }
    (row, *_) = (await client.get(f"{W}/", params={"include_doc_info": "true"})).json()
    assert row["steps"] is None


@pytest.mark.parametrize("status", ["FAILED", "failed"])
async def test_runs_and_steps_are_found_by_status(
    client: httpx.AsyncClient, group: Created, batch: int, status: str
) -> None:
    (run,) = (await client.get(f"{W}/by-status", params={"status": status, "batch_id": batch})).json()
    assert (run["id"], run["status"]) == (group.run_ids[1], "FAILED")
    (step,) = (await client.get(f"{W}/steps", params={"status": status})).json()
    assert (step["workflow_run_id"], step["status_message"]) == (group.run_ids[1], "no paper")
    page = (await client.get(f"{W}/steps", params={"status": status, "page": 1})).json()
    assert page["total"] == 1


@pytest.mark.parametrize("path", ["by-status", "steps"])
async def test_a_status_that_is_none_is_refused_by_name(client: httpx.AsyncClient, path: str) -> None:
    for query in ({}, {"status": "BROKEN"}):
        answer = await client.get(f"{W}/{path}", params=query)
        assert answer.status_code == 422
        assert answer.json()["error"].startswith("status: ")


async def test_failed_attempts_of_a_run_are_listed_by_pages(client: httpx.AsyncClient, group: Created) -> None:
    completed, failed, _ = group.run_ids
    (attempt,) = (await client.get(f"{W}/runs/{failed}/attempts")).json()
    assert (attempt["attempt"], attempt["message"], attempt["worker_id"]) == (1, "no paper", "worker")
    assert attempt["start_date"] < attempt["end_date"]
    page = (await client.get(f"{W}/runs/{failed}/attempts", params={"page": 1, "rows_per_page": 5})).json()
    assert (page["total"], page["items"]) == (1, [attempt])
    assert (await client.get(f"{W}/runs/{completed}/attempts")).json() == []
    unknown = await client.get(f"{W}/runs/4711/attempts")
    assert (unknown.status_code, unknown.json()["error"]) == (404, "workflow run 4711 does not exist")


async def test_the_graph_of_a_workflow_and_of_its_runs_have_the_same_steps(
    client: httpx.AsyncClient, group: Created
) -> None:
    defined = (await client.get(f"{W}/definitions/test_wf/graph")).json()
    run = (await client.get(f"{W}/runs/{group.run_ids[1]}/graph")).json()
    assert [node["key"] for node in defined["nodes"]] == [node["key"] for node in run["nodes"]]
    assert sorted(map(str, defined["edges"])) == sorted(map(str, run["edges"]))
    assert (run["status"], run["nodes"][0]["message"], run["nodes"][1]["status"]) == ("FAILED", "no paper", "CANCELLED")
    assert (await client.get(f"{W}/definitions/test_fw/graph")).status_code == 404
    assert (await client.get(f"{W}/runs/4711/graph")).status_code == 404


async def test_tasks_of_a_map_step_are_listed_by_pages(client: httpx.AsyncClient) -> None:
    driver = Driver()
    created = await driver.start(workflow({"m": {"map": True}}, workflow_id="wide"))
    parent = await driver.claim_one()
    await driver.finish(expanded(parent, range(5)))
    (node,) = (await client.get(f"{W}/runs/{created.run_ids[0]}/graph")).json()["nodes"]
    assert (node["step_id"], node["tasks"]["total"], node["tasks"]["counts"]["PENDING"]) == (parent.id, 5, 5)
    page = (await client.get(f"{W}/steps/{parent.id}/tasks", params={"page": 2, "rows_per_page": 2})).json()
    assert (page["total"], [task["item_index"] for task in page["items"]]) == (5, [2, 3])
    assert (await client.get(f"{W}/steps/{parent.id}/tasks", params={"status": "FAILED"})).json() == []
    assert (await client.get(f"{W}/steps/4711/tasks")).status_code == 404


@pytest.mark.parametrize(("asked", "steps"), [({}, 6), ({"tasks": False}, 1)])
async def test_a_run_and_its_life_are_told_without_the_tasks_of_map_steps_where_nobody_wants_them(
    client: httpx.AsyncClient, asked: dict[str, bool], steps: int
) -> None:
    driver = Driver()
    created = await driver.start(workflow({"m": {"map": True}}, workflow_id="wide"))
    await driver.finish(expanded(await driver.claim_one(), range(5)))
    await driver.drain()
    run = (await client.get(f"{W}/runs/{created.run_ids[0]}", params=asked)).json()
    assert (run["status"], len(run["steps"])) == ("COMPLETED", steps)
    life = (await client.get(f"{W}/runs/{created.run_ids[0]}/lifecycle", params=asked)).json()
    assert len({event["step_id"] for event in life if event["step_id"] is not None}) == steps


async def test_queues_waiting_steps_causes_and_what_is_left_are_told(client: httpx.AsyncClient, group: Created) -> None:
    (queue,) = (await client.get(f"{W}/queues")).json()
    assert (queue["step_type"], queue["ready"], queue["is_exact"], queue["running"]) == ("validate", 0, True, 1)
    assert (await client.get(f"{W}/waiting")).json() == {
        "reasons": [],
        "is_exact": True,
        "resources": [],
        "signals": 0,
    }
    assert (await client.get(f"{W}/waiting/steps", params={"reason": "signal"})).json() == []
    assert (await client.get(f"{W}/waiting/steps", params={"reason": "mood"})).status_code == 422
    found = (await client.get(f"{W}/failures/by-cause", params={"run_group_id": group.group_id})).json()
    assert [(each["message"], each["failed"], each["run_ids"]) for each in found["causes"]] == [
        ("no paper", 1, [group.run_ids[1]])
    ]
    assert (await client.get(f"{W}/failures/by-cause", params={"run_group_id": 4711})).status_code == 404
    for spelling in ("run-groups", "run_groups"):
        eta = (await client.get(f"{W}/{spelling}/{group.group_id}/eta")).json()
        assert (eta["remaining_runs"], eta["seconds"]) == (1, None)
        assert eta["reason"]
    assert (await client.get(f"{W}/run-groups/4711/eta")).status_code == 404
    assert (await client.get("/api/v1/stats/throughput/steps", params={"interval": "week"})).status_code == 200


async def test_a_run_is_shown_with_its_steps_and_its_life(client: httpx.AsyncClient, group: Created) -> None:
    run = (await client.get(f"{W}/runs/{group.run_ids[0]}")).json()
    assert (run["status"], run["doc_id"]) == ("COMPLETED", HASHES[0])
    assert {step["status"] for step in run["steps"]} == {"COMPLETED"}
    life = (await client.get(f"{W}/runs/{group.run_ids[0]}/lifecycle")).json()
    assert (life[0]["event"], life[-1]["event"]) == ("item_start", "item_end")
    dates = [row["start_date"] for row in life]
    assert dates == sorted(dates)
    assert dates[0].endswith("Z")


async def test_a_run_is_started_for_one_document(client: httpx.AsyncClient, batch: int) -> None:
    for name in ("workflow_definition_id", "workflow_definiton_id"):
        answer = await client.post(f"{W}/", data={"doc_id": HASHES[0], name: "test_wf", "param_id": "test_base"})
        assert answer.status_code == 201
        run, steps = answer.json()
        assert (run["doc_id"], run["workflow_definition_id"], run["batch_id"]) == (HASHES[0], "test_wf", batch)
        assert {step["workflow_run_id"] for step in steps} == {run["id"]}


@pytest.mark.parametrize(
    "form",
    [
        {"doc_id": "sha256-unknown"},
        {"doc_id": HASHES[0], "workflow_definition_id": "test_fw"},
        {"doc_id": HASHES[0], "param_id": "nothing"},
    ],
)
async def test_a_run_of_what_does_not_exist_is_not_started(
    client: httpx.AsyncClient, batch: int, form: dict[str, str]
) -> None:
    answer = await client.post(f"{W}/", data=form)
    assert answer.status_code == 404
    assert "does not exist" in answer.json()["error"]
    assert (await client.get(f"{W}/")).json() == []


@pytest.mark.parametrize("spelling", ["run-groups", "run_groups"])
async def test_a_group_is_shown_in_both_spellings(
    client: httpx.AsyncClient, group: Created, batch: int, spelling: str
) -> None:
    (listed,) = (await client.get(f"{W}/{spelling}", params={"batch_id": batch})).json()
    assert listed == (await client.get(f"{W}/{spelling}/{group.group_id}")).json()
    runs = (await client.get(f"{W}/{spelling}/{group.group_id}/runs")).json()
    assert [run["id"] for run in runs] == group.run_ids[::-1]
    stats = (await client.get(f"{W}/{spelling}/{group.group_id}/stats")).json()
    expected = {"total_runs": 3, "completed": 1, "running": 1, "pending": 0, "failed": 1, "cancelled": 0, "error": 0}
    assert {name: stats[name] for name in expected} == expected
    assert (stats["COMPLETED"], stats["PENDING"], stats["group_status"]) == (1, 0, "RUNNING")
    assert stats["status_counts"] == {"COMPLETED": 1, "FAILED": 1, "RUNNING": 1}
    assert stats["average_duration"] == stats["avg_duration"]
    assert 0 < stats["min_duration"] <= stats["avg_duration"] <= stats["max_duration"]


async def test_a_group_is_deleted_with_all_that_belongs_to_it(client: httpx.AsyncClient, group: Created) -> None:
    answer = await client.delete(f"{W}/run-groups/{group.group_id}")
    assert answer.json()["statistics"]["deleted_workflowruns"] == 3
    assert (await client.get(f"{W}/run-groups/{group.group_id}")).status_code == 404
    assert (await client.get(f"{W}/")).json() == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "runs/4711"),
        ("GET", "runs/4711/lifecycle"),
        ("POST", "runs/4711/cancel"),
        ("GET", "run-groups/4711"),
        ("GET", "run_groups/4711/runs"),
        ("GET", "run-groups/4711/stats"),
        ("POST", "run-groups/4711/cancel"),
        ("DELETE", "run_groups/4711"),
        ("POST", "retry?run_group_id=4711"),
        ("GET", "definitions/nothing"),
        ("GET", "param-sets/nothing"),
        ("DELETE", "param-sets/nothing"),
    ],
)
async def test_what_does_not_exist_is_a_404(client: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, f"{W}/{path}")
    assert answer.status_code == 404
    assert "does not exist" in answer.json()["error"]


@pytest.mark.parametrize("number", ["0", "-1", "x", "1e3", "99999999999999999999999", "1.5", "%00"])
async def test_an_id_that_is_none_is_refused(client: httpx.AsyncClient, number: str) -> None:
    for path in ("runs/{}", "run-groups/{}", "run-groups/{}/stats", "runs/{}/lifecycle"):
        assert (await client.get(f"{W}/{path.format(number)}")).status_code == 422
    assert (await client.post(f"{W}/retry?run_group_id={number}")).status_code == 400


async def test_what_failed_is_retried_by_query_form_or_json(client: httpx.AsyncClient, group: Created) -> None:
    form = await client.post(f"{W}/retry", data={"run_group_id": group.group_id})
    assert form.status_code == 201
    assert form.json()["reset_runs"] == 1
    assert form.json()["reset_steps"] > 1
    named = {"run_group_id": group.group_id}
    for answer in (await client.post(f"{W}/retry", params=named), await client.post(f"{W}/retry", json=named)):
        assert answer.json() == {"run_group_id": group.group_id, "reset_steps": 0, "reset_runs": 0}
    assert (await client.post(f"{W}/retry")).status_code == 400
    assert (await client.post(f"{W}/retry", json=[1])).status_code == 400
    assert (
        await client.post(f"{W}/retry", content=b"{", headers={"Content-Type": "application/json"})
    ).status_code == 400


async def test_runs_and_groups_are_cancelled(client: httpx.AsyncClient, group: Created) -> None:
    one = (await client.post(f"{W}/runs/{group.run_ids[2]}/cancel")).json()
    assert one["cancelled_runs"] == 1
    assert one["cancelled_steps"] > 0
    rest = (await client.post(f"{W}/run-groups/{group.group_id}/cancel")).json()
    assert set(rest) == {"cancelled_runs", "cancelled_steps"}


async def test_what_runs_now_and_what_changed_lately_is_shown(client: httpx.AsyncClient, group: Created) -> None:
    (running,) = (await client.get(f"{W}/status/running")).json()
    assert (running["workflow_run_id"], running["doc_hash"], running["doc_uri"]) == (
        group.run_ids[2],
        HASHES[2],
        "/2.txt",
    )
    for name in ("run_group_id", "param_definition_id", "step_type", "start_date", "elapsed_seconds"):
        assert running[name] is not None
    recent = (await client.get(f"{W}/status/recent", params={"interval": "week"})).json()
    assert {row["workflow_run_id"] for row in recent} == set(group.run_ids)
    failed = await client.get(f"{W}/status/recent", params={"interval": "day", "workflow_status": "FAILED"})
    assert [row["workflow_run_id"] for row in failed.json()] == [group.run_ids[1]]
    assert (await client.get(f"{W}/status/recent", params={"interval": "year"})).status_code == 422


async def test_definitions_are_given_as_yaml_and_as_json(client: httpx.AsyncClient) -> None:
    listed = {row["id"]: row["name"] for row in (await client.get(f"{W}/definitions")).json()}
    assert {"batch", "batch_split", "batch_split_vacuum", "interactive", "test_wf", "test_wf_fail"} <= listed.keys()
    text = await client.get(f"{W}/definitions/batch")
    assert text.headers["content-type"].startswith("text/yaml")
    assert "id: batch\n" in text.text
    as_json = await client.get(f"{W}/definitions/batch", headers={"Accept": "application/json"})
    assert list(as_json.json()["item_steps"]) == ["validate", "parse", "chunk", "embed", "store"]


MINE = "id: mine\nname: Mine\nconfig:\n  store: {data_dir: my_db}\n"


@pytest.mark.parametrize("spelling", ["param-sets", "param_sets"])
async def test_a_parameter_set_is_saved_found_by_target_and_deleted(
    client: httpx.AsyncClient, spelling: str, tmp_path: Path
) -> None:
    saved = await client.post(f"{W}/{spelling}", data={"yaml_content": MINE})
    assert saved.status_code == 201
    assert saved.json()["id"] == "mine"
    assert saved.json()["file_path"] == "database:definition/1"
    assert saved.json()["message"] == "Parameter set mine saved"
    listed = {row["id"]: row["source"] for row in (await client.get(f"{W}/{spelling}")).json()}
    assert (listed["mine"], listed["default"]) == ("user", "app")
    assert (await client.get(f"{W}/{spelling}/mine")).text == MINE
    by_target = (await client.get(f"{W}/{spelling}/target/my_db")).json()
    assert by_target == [{"id": "mine", "name": "Mine", "source": "user"}]
    assert (await client.post(f"{W}/{spelling}", data={"yaml_content": MINE})).status_code == 409
    assert (await client.delete(f"{W}/{spelling}/mine")).status_code == 200
    assert (await client.get(f"{W}/{spelling}/mine")).status_code == 404
    assert not (tmp_path / "user_params").exists(), "it is kept in the database, for all machines"


async def test_nothing_is_started_with_parameters_that_a_step_refuses(client: httpx.AsyncClient, batch: int) -> None:
    text = "id: misspelt\nconfig:\n  chunk: {chunk_sise: 100}\n  emebd: {precision: int8}\n"
    saved = await client.post(f"{W}/param-sets", data={"yaml_content": text})
    assert saved.status_code == 201, "a handler of a user may understand it"
    _, of_the_key, of_the_section = saved.json()["message"].split("; warning: ")
    assert of_the_key == "config.chunk.chunk_sise: there is no such parameter; did you mean 'chunk_size'?"
    assert "did you mean 'embed'" in of_the_section
    asked = {"batch_id": batch, "workflow_definition_id": "batch", "param_id": "misspelt"}
    answer = await client.post("/api/v1/batch/start-workflows", data=asked)
    assert answer.status_code == 400
    assert "chunk.chunk_sise" in answer.text
    assert (await client.get(f"{W}/run-groups")).json() == []


async def test_a_parameter_set_that_is_shipped_or_in_use_stays(client: httpx.AsyncClient, batch: int) -> None:
    assert (await client.delete(f"{W}/param-sets/default")).status_code == 403
    await client.post(f"{W}/param-sets", data={"yaml_content": MINE})
    form = {"doc_id": HASHES[0], "workflow_definition_id": "test_wf", "param_id": "mine"}
    assert (await client.post(f"{W}/", data=form)).status_code == 201
    answer = await client.delete(f"{W}/param-sets/mine")
    assert answer.status_code == 403
    assert "in use by run group 1" in answer.json()["error"]
    assert (await client.post(f"{W}/run-groups/1/cancel")).json()["cancelled_runs"] == 1
    assert (await client.delete(f"{W}/param-sets/mine")).status_code == 403, "a group that has ended may be retried"
    await client.delete(f"{W}/run-groups/1")
    assert (await client.delete(f"{W}/param-sets/mine")).status_code == 200


@pytest.mark.parametrize(
    "text",
    [
        "",
        "id: [",
        "- a\n- b",
        "name: no id",
        "id: ../../etc/passwd\nconfig: {}",
        "id: x\nconfig: 7",
        "\x00",
        "id: !!python/object:os.system x",
    ],
)
async def test_a_parameter_set_that_is_none_is_refused(client: httpx.AsyncClient, text: str, tmp_path: Path) -> None:
    answer = await client.post(f"{W}/param-sets", data={"yaml_content": text})
    assert answer.status_code in {400, 422}
    assert answer.json()["error"]
    assert not (tmp_path / "user_params").exists()


async def test_a_long_list_points_to_its_rest(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, group: Created
) -> None:
    from soliplex.ingester.lib.wf.views import Paging
    from soliplex.ingester.server import parameters

    monkeypatch.setattr(parameters, "FIRST_ROWS", Paging(1, 2))
    answer = await client.get(f"{W}/")
    assert len(answer.json()) == 2
    assert answer.headers["x-total-count"] == "3"
    link = answer.headers["link"].partition(">")[0].removeprefix("<")
    assert [run["id"] for run in (await client.get(link)).json()["items"]] == group.run_ids[:1]


async def test_the_bytes_of_a_document_and_its_artifacts_are_downloaded(
    client: httpx.AsyncClient, group: Created
) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield b"paper"

    artifacts = get_artifacts()
    received = await artifacts.receive(content(), limit=None)
    doc_hash = received.hash
    await artifacts.keep(received)
    async with Database.session() as session:
        session.add(Document(hash=doc_hash, mime_type="text/html", file_size=5))
        await session.flush()
        session.add(DocumentURI(doc_hash=doc_hash, uri='/a b\n"c".html', source="shelf"))
    answer = await client.get(f"/api/v1/document/{doc_hash}/raw")
    assert answer.content == b"paper"
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''a%20b%0A%22c%22.html")
    assert (await client.get(f"/api/v1/document/{HASHES[0]}/raw")).status_code == 404
    (parse,) = [
        step
        for step in (await client.get(f"{W}/runs/{group.run_ids[0]}")).json()["steps"]
        if step["step_type"] == "parse"
    ]
    await artifacts.write(HASHES[0], ArtifactType.PARSED_MD, parse["step_config_id"], b"# Title")
    listed = (await client.get(f"/api/v1/document/{HASHES[0]}/artifacts")).json()
    assert listed == [
        {"artifact_type": "parsed_markdown", "step_config_id": parse["step_config_id"], "step_type": "parse"}
    ]
    markdown = await client.get(f"/api/v1/document/{HASHES[0]}/artifacts/parsed_markdown")
    assert (markdown.text, markdown.headers["content-type"]) == ("# Title", "text/markdown; charset=utf-8")
    assert (await client.get(f"/api/v1/document/{HASHES[0]}/artifacts/chunks")).status_code == 404
    assert (await client.get(f"/api/v1/document/{HASHES[0]}/artifacts/document")).status_code == 404
    for wrong in ("..%2f..%2fetc%2fpasswd", "sha256-x", "x"):
        assert (await client.get(f"/api/v1/document/{wrong}/raw")).status_code in {404, 422}


async def test_a_large_parameter_set_leaves_the_loop_free(client: httpx.AsyncClient) -> None:
    """Whatever holds the loop meanwhile fails the test, as in every test of the application."""
    steps = "".join(f"  k{number}: {{a: 1, b: [1, 2, 3]}}\n" for number in range(2_000))
    answer = await client.post("/api/v1/workflow/param-sets", data={"yaml_content": f"id: large\nconfig:\n{steps}"})
    assert answer.status_code == 201, answer.text[:300]
    as_json = await client.get("/api/v1/workflow/param-sets/large", headers={"Accept": "application/json"})
    assert len(as_json.json()["config"]) == 2_000


async def test_what_only_the_product_starts_is_left_out_of_the_definitions(client: httpx.AsyncClient) -> None:
    await client.post("/api/v1/goals/", json={"goal": "search for words"})
    for internal in (True, False):
        listed = (await client.get(f"{W}/definitions", params={"internal": internal})).json()
        assert ("goal" in {each["id"] for each in listed}) is internal


WRONG = """\
id: default
name: Wrong
config:
  chunk:
    chunk_size: tall
    chunk_sise: 3
  embed: {provider: nobody}
  chunks: {}
  store: {data_dir: ../etc}
"""


async def test_a_parameter_set_is_checked_field_by_field_and_not_saved(client: httpx.AsyncClient) -> None:
    answer = (await client.post(f"{W}/param-sets/check", data={"yaml_content": WRONG})).json()
    found = {(each["field"], each["line"], each["weight"]) for each in answer["problems"]}
    assert found == {
        ("id", 1, "error"),
        ("config.chunk.chunk_size", 5, "warning"),
        ("config.chunk.chunk_sise", 6, "warning"),
        ("config.embed.provider", 7, "warning"),
        ("config.chunks", 8, "warning"),
        ("config.store.data_dir", 9, "error"),
    }
    assert not answer["can_be_saved"]
    assert "did you mean 'chunk_size'?" in next(
        each["problem"] for each in answer["problems"] if each["field"] == "config.chunk.chunk_sise"
    )
    broken = (await client.post(f"{W}/param-sets/check", data={"yaml_content": "id: x\nconfig: 7"})).json()
    assert (broken["can_be_saved"], [each["line"] for each in broken["problems"]]) == (False, [2])
    good = (await client.post(f"{W}/param-sets/check", data={"yaml_content": MINE})).json()
    assert good == {"id": "mine", "can_be_saved": True, "problems": []}
    assert (await client.get(f"{W}/param-sets/mine")).status_code == 404


async def test_what_the_shipped_steps_understand_is_told_as_schemas(client: httpx.AsyncClient) -> None:
    told = (await client.get(f"{W}/step-options")).json()
    assert {"ingest", "parse", "chunk", "embed", "enrich", "route", "store"} == told.keys()
    assert told["chunk"]["properties"]["chunk_size"]["maximum"] == 8192
    assert "repeats" in told["chunk"]["properties"]["chunk_overlap"]["description"]
