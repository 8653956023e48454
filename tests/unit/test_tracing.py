"""Ids of traces, which runs are traced, and what is not done where nothing is."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest

from soliplex.ingester.lib.config import InvalidSettings, load_settings
from soliplex.ingester.lib.errors import MissingPackageError
from soliplex.ingester.lib.log_facts import facts_now, process_works_on, working_on
from soliplex.ingester.lib.wf.tracing import check_tracing, tracing_of, within_carried_span
from soliplex.ingester.lib.wf.tracing.ids import trace_ids_of
from soliplex.ingester.lib.wf.underway import Underway

MOMENT = datetime(2026, 11, 18, 12, 30, 15, 123456, tzinfo=UTC)


def test_the_ids_of_a_trace_depend_on_the_run_and_on_nothing_else() -> None:
    ids = trace_ids_of(7, MOMENT)
    assert ids == trace_ids_of(7, MOMENT.astimezone(timezone(timedelta(hours=9))))
    assert ids.hex == "1114b8091bab2b9aaaafac262050179d"
    assert len({trace_ids_of(8, MOMENT), trace_ids_of(7, MOMENT + timedelta(microseconds=1)), ids}) == 3


def test_a_share_of_the_runs_is_traced_and_a_larger_share_has_all_of_a_smaller_one() -> None:
    runs = [trace_ids_of(number, MOMENT) for number in range(2000)]
    tenth, half = ({each for each in runs if each.is_sampled(ratio)} for ratio in (0.1, 0.5))
    assert tenth < half
    assert (len(tenth), len(half)) == (pytest.approx(200, rel=0.2), pytest.approx(1000, rel=0.1))
    assert all(each.is_sampled(1) for each in runs)
    assert not any(each.is_sampled(0) for each in runs)


def test_without_an_endpoint_there_is_no_tracing() -> None:
    assert tracing_of(load_settings(env_file=None)) is None


def test_an_endpoint_without_the_packages_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings(env_file=None, trace_endpoint="http://localhost:4318")
    monkeypatch.delitem(sys.modules, "soliplex.ingester.lib.wf.tracing.spans", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    for make in (check_tracing, tracing_of):
        with pytest.raises(MissingPackageError, match=r'TRACE_ENDPOINT needs it; install "soliplex-ingester\[otel\]"'):
            make(settings)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("trace_endpoint", "localhost:4318", "is not an http address"),
        ("trace_url_template", "http://localhost/trace/", "has no {trace_id} in it"),
        ("trace_sample_ratio", "2", "less than or equal to 1"),
    ],
)
def test_a_wrong_setting_of_traces_is_named(name: str, value: str, problem: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        load_settings(env_file=None, **{name: value})
    assert name.upper() in str(refused.value)
    assert problem in str(refused.value)


def test_what_is_carried_by_nobody_is_no_span() -> None:
    with within_carried_span(None):
        pass


def test_records_tell_of_no_step_that_is_over() -> None:
    underway = Underway(())
    before = working_on.set(underway)
    try:
        with process_works_on({"run_id": 3}):
            assert facts_now() == {}  # a task that outlives its step is not said to work on anything else
    finally:
        working_on.reset(before)
    with process_works_on({"run_id": 3}):
        assert facts_now() == {"run_id": 3}
    assert facts_now() == {}
