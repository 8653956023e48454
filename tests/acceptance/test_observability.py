"""What a server and a worker of its own, in processes of their own, tell of themselves while documents are processed.

One installation works for all of these tests: a server without a worker, and a worker with a port for its metrics,
traces, and a log of JSON.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

import soliplex.ingester
from soliplex.ingester.lib.embedding import cached
from soliplex.ingester.lib.llm import chat_metrics as llm
from soliplex.ingester.lib.webhooks import webhook_metrics as webhooks
from soliplex.ingester.lib.wf.metrics import PrometheusMetrics
from soliplex.ingester.server import metrics
from tests.acceptance.test_server_process import until_the_group_ends
from tests.support.otlp import Receiver, facts_of, receiving
from tests.support.serving import PATIENCE, PROGRAM, free_port, serving

A: Final = "/api/v1"
ROOT: Final = Path(__file__).parents[2]
LIBRARY: Final = """
import logging, os, threading
from pathlib import Path

from opentelemetry import trace

from soliplex.ingester import batch_handler
from soliplex.ingester.lib.llm.chat_metrics import Prices, count_tokens

log = logging.getLogger("some.library")


def fails_once() -> dict:
    log.warning("at work in a thread")
    try:
        (Path(os.environ["WATCHED"]) / "has failed").touch(exist_ok=False)
    except FileExistsError:
        return {}
    raise ConnectionError("not yet")


def apart() -> dict:
    count_tokens("test", sent=5, answered=7, prices=Prices())
    with trace.get_tracer("some.library").start_as_current_span("inside"):
        thread = threading.Thread(target=log.warning, args=("at work apart",))
        thread.start()
        thread.join()
    return {}


@batch_handler(limit=10)
async def together(batch: list) -> list:
    log.warning("at work on %d", len(batch))
    return [{} for _ in batch]
"""
WORKFLOW: Final = """
id: watched
name: Watched
item_steps:
  first:
    name: first
    method: watched_library.fails_once
    retries: 2
  second:
    name: second
    method: watched_library.apart
    isolation: process
  third:
    name: third
    method: watched_library.together
"""
OF_THE_SEED: Final = {
    "counter": {
        *("claim_attempts", "claim_success", "claim_idle", "claim_error", "claim_lost_race", "step_completed"),
        *("step_error", "step_failed", "step_released", "step_reset_by_reaper", "worker_reaped", "lease_lost"),
        "resource_lock_swept",
    },
    "histogram": {"claim_duration", "step_duration"},
}
OUR_OWN: Final = "soliplex_"


@dataclass(frozen=True, slots=True)
class Metric:
    """What is exposed under one name."""

    kind: str
    text: str
    labels: frozenset[str]
    """Those of its samples; empty where it has none yet."""
    values: Mapping[tuple[str, ...], float]
    """By the values of the labels, in the order of their names; of a histogram, how many were observed."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What was told while two documents were processed, one of them with a failed attempt."""

    of_server: dict[str, Metric]
    of_worker: dict[str, Metric]
    records: list[dict[str, Any]]
    receiver: Receiver
    runs: list[dict[str, Any]]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    (folder / "watched_library.py").write_text(LIBRARY)
    (folder / "workflows").mkdir()
    (folder / "workflows" / "watched.yaml").write_text(WORKFLOW)
    with receiving() as receiver:
        environment = {
            "PYTHONPATH": str(folder),
            "WATCHED": str(folder),
            "WORKFLOW_DIR": str(folder / "workflows"),
            "DEFAULT_WORKFLOW_ID": "watched",
            "DATA_DIR": str(folder / "data"),
            "RETRY_FIRST_DELAY_SECONDS": "0",
            "LOG_FORMAT": "json",
            "TRACE_ENDPOINT": receiver.url,
            "TRACE_URL_TEMPLATE": "http://traces.example/{trace_id}",
            "WORKER_METRICS_PORT": str(free_port()),
        }
        with serving(folder, "--no-worker", environment=environment) as server, server.client() as client:
            yield _watch(client, folder, receiver, environment)


def _watch(client: httpx.Client, folder: Path, receiver: Receiver, environment: dict[str, str]) -> Watched:
    log = folder / "worker.log"
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "worker"],
            stdout=output,
            stderr=output,
            env=os.environ | environment | {"PYDANTIC_DISABLE_PLUGINS": "logfire-plugin"},
        )
    try:
        runs = _process_documents(client)
        receiver.wait_until(lambda spans: len(spans) >= 2 * (1 + 3) + 1 + 2)
        of_worker = exposed(httpx.get(f"http://127.0.0.1:{environment['WORKER_METRICS_PORT']}/metrics").text)
        of_server = exposed(client.get("/metrics").text)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
    finally:
        worker.kill()
        worker.wait()
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return Watched(of_server, of_worker, records, receiver, runs)


def _process_documents(client: httpx.Client) -> list[dict[str, Any]]:
    batch_id = client.post(f"{A}/batch/", data={"source": "test", "name": "watched"}).json()["batch_id"]
    for name in ("a", "b"):
        form = {"source_uri": f"{name}.md", "source": "test", "batch_id": str(batch_id)}
        client.post(f"{A}/document/ingest-document", data=form, files={"file": (f"{name}.md", name)}).raise_for_status()
    started = client.post(f"{A}/batch/start-workflows", data={"batch_id": str(batch_id)}).json()
    with client.stream("GET", f"{A}/events", params={"run_group_id": started["run_group_id"]}) as stream:
        until_the_group_ends(stream)
    runs = client.get(f"{A}/workflow/runs", params={"batch_id": batch_id}).json()
    return [client.get(f"{A}/workflow/runs/{run['id']}").json() for run in runs]


def exposed(text: str) -> dict[str, Metric]:
    """Our own metrics in an answer. A name that is told twice would be refused by Prometheus."""
    families = [each for each in text_string_to_metric_families(text) if each.name.startswith(OUR_OWN)]
    assert len({family.name for family in families}) == len(families)
    return {family.name: _metric(family) for family in families}


def _metric(family: Any) -> Metric:
    counted = [sample for sample in family.samples if not sample.name.endswith(("_bucket", "_sum", "_created"))]
    values = {tuple(value for _, value in sorted(sample.labels.items())): sample.value for sample in counted}
    labels = frozenset(label for sample in counted for label in sample.labels)
    return Metric(family.type, family.documentation, labels, values)


def declared() -> dict[str, tuple[str, frozenset[str]]]:
    """Whatever this process can count: kind and labels, by name."""
    PrometheusMetrics()
    llm._counters()
    webhooks._counters()
    cached._counters()
    metrics._requests()
    metrics._loop_delay()
    collectors: Any = REGISTRY._collector_to_names
    ours = [each for each in collectors if getattr(each, "_name", "").startswith(OUR_OWN)]
    return {each._name: (each._type, frozenset(each._labelnames)) for each in ours}


def documented() -> dict[str, tuple[str, frozenset[str]]]:
    """Kind and labels of each metric that the page tells of, by its name."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for table in re.findall(r"^\| (?:counter|histogram|gauge) \|.*?\n\n", page, re.DOTALL | re.MULTILINE):
        kind = table.split()[1]
        for name, labels in re.findall(r"^\| `(soliplex_\w+)` \|.*\| (.*)\|$", table, re.MULTILINE):
            assert (kind == "counter") == name.endswith("_total")
            found[name.removesuffix("_total")] = (kind, frozenset(re.findall(r"`(\w+)`", labels)))
    return found


def test_every_metric_of_the_seed_is_there_with_a_help_text(watched: Watched) -> None:
    known = declared()
    for kind, names in OF_THE_SEED.items():
        assert {name for name in names if known[OUR_OWN + name][0] == kind} == names
    told = {name for metrics in (watched.of_worker, watched.of_server) for name in metrics}
    assert {OUR_OWN + name for names in OF_THE_SEED.values() for name in names} <= told
    for name in ("claim_error", "claim_lost_race", "lease_lost"):
        assert set(watched.of_worker[OUR_OWN + name].values.values()) == {0.0}, f"{name} never happened, and is told"


def test_all_that_is_exposed_is_documented_and_all_that_is_documented_is_exposed(watched: Watched) -> None:
    page, gauges = documented(), dict[str, tuple[str, frozenset[str]]]()
    for found in (watched.of_worker, watched.of_server):
        for name, metric in found.items():
            assert metric.text, name
            assert metric.kind == page[name][0], name
            assert not metric.labels or metric.labels == page[name][1], name
            if metric.kind == "gauge":
                gauges[name] = page[name]
    assert page == declared() | gauges


def test_no_metric_is_declared_where_these_tests_do_not_look() -> None:
    source = Path(soliplex.ingester.__file__).parent
    declaring = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"\b(?:Counter|Histogram|Gauge|Summary|Info|Enum)\(\s*[*\"f]+", path.read_text("utf-8"))
        and "prometheus_client" in path.read_text("utf-8")
    }
    of = ("embedding/cached", "llm/chat_metrics", "webhooks/webhook_metrics", "wf/metrics")
    assert declaring == {*(f"lib/{name}.py" for name in of), "server/metrics.py"}


def test_counters_are_right_also_those_of_isolated_processes(watched: Watched) -> None:
    counted = watched.of_worker
    assert counted["soliplex_step_completed"].values == {(): 6}
    assert counted["soliplex_step_error"].values == {(): 1}
    assert counted["soliplex_run_ended"].values == {("COMPLETED",): 2, ("FAILED",): 0, ("CANCELLED",): 0}
    assert counted["soliplex_group_duration"].values == {(): 1}
    assert sum(counted["soliplex_step_duration"].values.values()) == 7
    assert counted["soliplex_llm_tokens"].values == {("answered", "test"): 14, ("sent", "test"): 10}
    assert counted["soliplex_unfinished_runs"].values == watched.of_server["soliplex_unfinished_runs"].values == {(): 0}
    assert "soliplex_http_requests" in watched.of_server


def queries() -> list[str]:
    dashboard = json.loads((ROOT / "docs" / "assets" / "grafana-dashboard.json").read_text("utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


@pytest.mark.parametrize("query", queries())
def test_a_query_of_the_dashboard_asks_for_metrics_and_labels_that_there_are(query: str, watched: Watched) -> None:
    gauges = {name: metric for name, metric in watched.of_server.items() if metric.kind == "gauge"}
    known = declared() | {name: ("gauge", metric.labels or documented()[name][1]) for name, metric in gauges.items()}
    endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    series = {name + ending: (kind, labels) for name, (kind, labels) in known.items() for ending in endings[kind]}
    asked = re.findall(r"soliplex_\w+", query)
    assert asked
    assert set(asked) <= series.keys()
    labels = {"instance", "job"}.union(*(series[name][1] for name in asked))
    labels |= {"le"} if any(name.endswith("_bucket") for name in asked) else set()
    grouped = [label for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")]
    matched = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", query)
    assert {*grouped, *matched} <= labels
    is_counter = any(series[name][0] != "gauge" for name in asked)
    assert is_counter == ("[$__rate_interval]" in query)


def test_every_query_of_the_dashboard_gets_an_answer_where_something_was_counted(watched: Watched) -> None:
    """Each metric that was told is asked for by some panel, but for what only a page about one thing needs."""
    asked = {name for query in queries() for name in re.findall(r"soliplex_\w+?(?=_total|_bucket|_count|\b)", query)}
    told = watched.of_worker.keys() | watched.of_server.keys()
    assert told - asked <= {"soliplex_running_steps"}


def test_a_run_is_one_trace_with_a_span_for_each_attempt(watched: Watched) -> None:
    spans = watched.receiver.spans
    assert watched.receiver.services == {"soliplex-ingester"}
    assert {span.trace_id.hex() for span in spans} == {run["trace_id"] for run in watched.runs}
    for run in watched.runs:
        assert run["trace_url"] == f"http://traces.example/{run['trace_id']}"
        own = [span for span in spans if span.trace_id.hex() == run["trace_id"]]
        (whole,) = [span for span in own if not span.parent_span_id]
        assert (whole.name, facts_of(whole)["status"], facts_of(whole)["doc_id"]) == (
            "watched",
            "COMPLETED",
            run["doc_id"],
        )
        attempts = [span for span in own if span.parent_span_id == whole.span_id]
        of_steps = sorted((facts_of(span)["step_id"], facts_of(span)["attempt"]) for span in attempts)
        expected = [(step["id"], number + 1) for step in run["steps"] for number in range(step["retry"] + 1)]
        assert of_steps == sorted(expected)
        assert all(whole.start_time_unix_nano <= span.start_time_unix_nano for span in attempts)


def test_a_failed_attempt_tells_what_it_failed_of(watched: Watched) -> None:
    failed = [span for span in watched.receiver.spans if span.status.code == 2]
    (span,) = failed
    assert (span.name, facts_of(span)["attempt"], facts_of(span)["outcome"]) == ("first", 1, "failed")
    assert span.status.message == "ConnectionError: not yet"
    (event,) = span.events
    told = {each.key: each.value.string_value for each in event.attributes}
    assert told["exception.type"] == "ConnectionError"
    assert "fails_once" in told["exception.stacktrace"]


def test_what_a_handler_traces_in_a_process_of_its_own_stands_below_its_attempt(watched: Watched) -> None:
    by_id = {span.span_id: span for span in watched.receiver.spans}
    inside = [span for span in watched.receiver.spans if span.name == "inside"]
    assert len(inside) == 2
    for span in inside:
        assert by_id[span.parent_span_id].name == "second"
        assert by_id[span.parent_span_id].trace_id == span.trace_id


def test_every_record_of_a_step_tells_its_run_step_and_document(watched: Watched) -> None:
    of_steps = {step["id"]: (run, step) for run in watched.runs for step in run["steps"]}
    of_library = [record for record in watched.records if record.get("logger") == "some.library"]
    alone = [record for record in of_library if "step_id" in record]
    for record in alone:
        run, step = of_steps[record["step_id"]]
        assert (record["run_id"], record["doc_id"], record["step"], record["trace_id"]) == (
            run["id"],
            run["doc_id"],
            step["workflow_step_name"],
            run["trace_id"],
        )
    said = sorted((record["event"], record["step"]) for record in alone if record["step"] != "third")
    assert said == [("at work apart", "second")] * 2 + [("at work in a thread", "first")] * 3
    together = [record for record in of_library if record["step"] == "third"]
    named = [step_id for record in together for step_id in record.get("step_ids", [record.get("step_id")])]
    assert sorted(named) == sorted(step for step in of_steps if of_steps[step][1]["workflow_step_name"] == "third")
    assert {record["trace_id"] for record in together} <= {run["trace_id"] for run in watched.runs}
    attempts = sorted(record["attempt"] for record in alone if record["step"] == "first")
    assert attempts == [1, 1, 2]


def test_records_of_the_worker_itself_tell_of_no_step(watched: Watched) -> None:
    own = [record for record in watched.records if record.get("logger") == "soliplex.ingester.lib.wf.runner"]
    assert own
    assert not any("step_id" in record for record in own)
