"""The benchmarks' output: how results are shown, and that each benchmark gives all it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import Line, Target, as_markdown, as_text, number, parse_options, value_at

ROOT = Path(__file__).parents[2]
LINES = (
    Line("steps/s, {runs:,} workflows", "steps_per_second", Target(10_000)),
    Line("start, p50, ms", "start_latency_ms.p50", Target(3, at_most=True)),
    Line("tasks/s", "tasks_per_second", Target(15_000, databases=("postgres",))),
    Line("steps before a small group", "fairness"),
)


def result(**values: Any) -> dict[str, Any]:
    facts = {"cores": 2, "memory_gib": 24, "python": "3.13.0", "date": "2030-01-01", "load_before": 0, "load_after": 1}
    return {
        "benchmark": "engine",
        "database": "sqlite",
        "database_version": "SQLite 3.40.1",
        "quick": False,
        "machine": facts,
        "sizes": {"runs": 1000},
        "failed": {},
        **values,
    }


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"][2:]


def test_a_line_says_what_was_measured_and_whether_the_target_is_reached() -> None:
    shown = rows(as_markdown(result(steps_per_second=12_345.6, start_latency_ms={"p50": 3.14159}), LINES))
    assert shown[0] == ["steps/s, 1,000 workflows", "12,346", "-", "-", "≥ 10,000", "reached"]
    assert shown[1] == ["start, p50, ms", "3.14", "-", "-", "≤ 3", "not reached"]


def test_a_target_is_asked_for_only_on_its_databases() -> None:
    assert rows(as_markdown(result(tasks_per_second=1), LINES))[0][-2:] == ["-", ""]
    assert rows(as_markdown(result(tasks_per_second=1, database="postgres"), LINES))[0][-2:] == [
        "≥ 15,000",
        "not reached",
    ]


def test_a_measure_that_was_left_out_is_not_shown_and_one_that_failed_is() -> None:
    assert rows(as_markdown(result(), LINES)) == []
    shown = as_markdown(result(steps_per_second=None, failed={"steps_per_second": "TimeoutError: "}), LINES)
    assert rows(shown)[0][-1] == "not reached"
    assert "steps_per_second could not be measured: TimeoutError" in shown


def test_peers_stand_beside_with_the_ratio_and_their_failures_are_told() -> None:
    peers = {
        "one": {"label": "One", "version": "1.0", "failed": {}, "steps_per_second": 500},
        "two": {"label": "Two", "version": "2.0", "failed": {"everything": "no such package"}},
    }
    shown = as_markdown(result(steps_per_second=10_000, peers=peers), LINES)
    assert rows(shown)[0][2:4] == ["One 500", "20"]
    assert "Two 2.0, everything could not be measured: no such package" in shown


def test_the_text_holds_the_same_rows_aligned() -> None:
    lines = as_text(result(steps_per_second=10_000, fairness=9), LINES).splitlines()
    assert lines[0].startswith("engine on SQLite 3.40.1 · 2 cores, 24 GiB, Python 3.13.0")
    assert lines[2].index("ours") == lines[3].index("10,000") == lines[4].index("9")


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (0.123, "0.12"), (12.34, "12.3"), (9, "9"), (123.4, "123"), (1e6, "1,000,000")]
)
def test_a_number_has_as_many_digits_as_a_reader_can_use(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_a_path_that_leads_nowhere_gives_nothing() -> None:
    assert value_at({"a": {"b": 1}}, "a.b") == 1
    assert value_at({"a": None}, "a.b") is None


def test_options_name_the_measures_to_take() -> None:
    options = parse_options("", ("one", "two"), ["--database", "postgres", "--json", "--only", "two"])
    assert (options.database, options.as_json, options.only) == ("postgres", True, ("two",))


@pytest.mark.slow
@pytest.mark.sqlite
def test_the_quick_form_on_sqlite_prints_one_json_object_with_every_measure() -> None:
    command = [sys.executable, "-m", "benchmarks.engine", "--database", "sqlite", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    measured = json.loads(done.stdout)
    assert measured["failed"] == {}
    assert measured["held_snapshot_ratio"] is None
    for name in (
        *("steps_per_second", "tasks_per_second", "map_tasks_per_second", "create_runs_per_second", "raw_limit"),
        *("backlog_ratio", "start_latency_ms.p50", "start_latency_ms.p95", "recovery_seconds.p50"),
        *("recovery_seconds.p95", "fairness"),
    ):
        value = value_at(measured, name)
        assert value is not None, name
        assert value > 0, name


@pytest.mark.slow
@pytest.mark.sqlite
def test_the_quick_form_of_the_api_s_benchmark_gives_every_figure() -> None:
    command = [sys.executable, "-m", "benchmarks.api", "--database", "sqlite", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    measured = json.loads(done.stdout)
    assert measured["failed"] == {}
    for name in (
        *("upload_documents_per_second", "start_workflows_documents_per_second", "source_status_100k_seconds"),
        *("batch_status_ms", "large_upload_mib_per_second"),
    ):
        assert measured[name] > 0, name
    assert 0 <= measured["rss_growth_2gb_upload_mib"] < 64


@pytest.mark.slow
@pytest.mark.sqlite
def test_the_quick_form_of_the_flows_benchmark_gives_every_figure() -> None:
    command = [sys.executable, "-m", "benchmarks.flows", "--database", "sqlite", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    measured = json.loads(done.stdout)
    assert measured["failed"] == {}
    for name in ("dag_steps_per_second", "map_tasks_per_second", "hello_latency_ms"):
        assert measured[name] > 0, name
    assert measured["pgmq_steps_per_second"] is None, "SQLite has no pgmq"
    assert measured["optimizer"]["predicted_speedup"] > 1


@pytest.mark.slow
@pytest.mark.sqlite
def test_the_quick_form_of_the_webhooks_benchmark_gives_every_figure() -> None:
    command = [sys.executable, "-m", "benchmarks.webhooks", "--database", "sqlite", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    measured = json.loads(done.stdout)
    assert (measured["failed"], measured["webhooks_out_of_order"]) == ({}, 0)
    assert measured["webhook_deliveries_per_second"] > 0
    assert measured["webhooks_enqueued_per_second"] > 0


@pytest.mark.slow
@pytest.mark.sqlite
def test_the_quick_form_of_the_pipeline_s_benchmark_says_what_it_needs_and_measures_the_rest() -> None:
    command = [sys.executable, "-m", "benchmarks.pipeline", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True)
    measured = json.loads(done.stdout)
    assert done.returncode == 1
    assert set(measured["failed"]) == {
        *("documents_per_second", "reembedded_share", "words_and_headings_f1", "hostile", "embed_chunks_per_second"),
        *("chunks", "ndcg10", "search_ms", "pages_per_second", "coverage", "cells_f1", "titles"),
        "language_accuracy",
    }
    assert all("name a folder of data with --data" in reason for reason in measured["failed"].values())
    assert 0.5 < measured["rss_ratio_100k"] < 2


@pytest.mark.slow
@pytest.mark.sqlite
def test_the_quick_form_of_the_segmenter_s_benchmark_gives_every_figure(tmp_path: Path) -> None:
    segments = [{"title": title, "paras": [f"Words about {title}."] * 3} for title in ("", "Bees", "Trains")]
    files = {
        "segmentation/mdn.jsonl": json.dumps({"title": "A page", "segments": segments}) + "\n",
        "language/sentences.jsonl": json.dumps({"lang": "en", "text": "This is a sentence in English."}) + "\n",
        "documents/one.md": "# One\n\nText.\n",
        "pdf_truth/two.md": "# Two\r\n\r\nText.",
        "choi/3-5/1.ref": "==========\nBees fly .\nBees sing .\n==========\nTrains run .\n==========\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text * (4 if name.endswith("mdn.jsonl") else 1), newline="")
    command = [sys.executable, "-m", "benchmarks.segmenter", "--quick", "--json", "--data", str(tmp_path)]
    done = subprocess.run(
        [*command, "--choi", f"{tmp_path}/choi"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    measured = json.loads(done.stdout)
    assert measured["failed"] == {}
    assert measured["mdn"]["with_headings"]["windowdiff"] == 0
    assert (measured["reconstruction_exact"], measured["language_accuracy"]) == (True, 1)
    assert set(measured["choi"]) == {"3-5"}
    assert measured["pages_per_second"] > 0
    assert measured["webhook_deliveries_per_second"] > 0
