"""Traces of runs that a real worker executes: subflows, shared calls, shares of runs, and receivers that are away."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.lib.models import Database, RunStatus
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.lib.wf.tracing import trace_id_of, tracing_of
from soliplex.ingester.lib.wiring import current_wiring
from tests.support import handlers
from tests.support.engine import scalar, workflow
from tests.support.otlp import Receiver, facts_of, receiving
from tests.support.serving import free_port
from tests.support.working import HANDLERS, ended, start, until, working


@pytest.fixture
async def receiver(database: type[Database]) -> AsyncIterator[Receiver]:
    handlers.reset()
    with receiving() as receiver:
        yield receiver


@asynccontextmanager
async def traced(url: str, **settings: Any) -> AsyncGenerator[Worker]:
    """A worker that sends its traces there."""
    wiring = current_wiring()
    before = wiring.settings
    wiring.use(load_settings(trace_endpoint=url, **settings))
    try:
        async with working() as worker:
            yield worker
        tracing = wiring.made(tracing_of)
        assert tracing is not None
        tracing.shutdown()
    finally:
        wiring.use(before)


async def test_a_run_that_another_waits_for_is_a_trace_of_its_own_and_linked_to_it(receiver: Receiver) -> None:
    async with traced(receiver.url):
        inner = workflow({"work": {"method": HANDLERS + "echo"}}, workflow_id="inner")
        outer = workflow({"ask": {"method": HANDLERS + "in_a_subflow"}}, workflow_id="outer")
        created = await ops.create_run_group(outer, None, [ops.NewRun(input={"workflow": inner.id})])
        run = await ended(created.run_ids[0])
    whole = {span.name: span for span in receiver.spans if not span.parent_span_id}
    assert whole["outer"].trace_id.hex() == trace_id_of(run.id or 0, run.created_date)
    assert whole["inner"].trace_id != whole["outer"].trace_id
    (link,) = whole["inner"].links
    assert (link.trace_id, link.span_id) == (whole["outer"].trace_id, whole["outer"].span_id)
    outcomes = [facts_of(span)["outcome"] for span in receiver.spans if span.name == "ask"]
    assert outcomes == ["waits", "completed"]


async def test_every_worker_sends_to_the_same_trace(receiver: Receiver) -> None:
    async with traced(receiver.url):
        flow = two_steps()
        (run_id,) = (await ops.create_run_group(flow, None, [ops.NewRun(input={})])).run_ids
        await until(lambda: scalar(f"SELECT count(*) FROM runstep WHERE awaits = 'answer-{run_id}'"))
    async with traced(receiver.url):  # another, which knows nothing of the one before
        two_steps()
        await ops.send_signal(f"answer-{run_id}", {})
        run = await ended(run_id)
    assert run.status is RunStatus.COMPLETED
    assert {span.trace_id.hex() for span in receiver.spans} == {trace_id_of(run_id, run.created_date)}
    assert len({facts_of(span)["worker"] for span in receiver.spans if span.parent_span_id}) == 2
    (whole,) = [span for span in receiver.spans if not span.parent_span_id]
    assert {span.parent_span_id for span in receiver.spans} == {b"", whole.span_id}


def two_steps() -> WorkflowDefinition:
    return workflow({"first": {"method": HANDLERS + "echo"}, "second": {"method": HANDLERS + "asking"}})


async def test_steps_that_share_a_call_have_a_span_each_and_link_to_the_first(receiver: Receiver) -> None:
    async with traced(receiver.url):
        run_ids = await start("in_batches", 3)
        runs = [await ended(run_id) for run_id in run_ids]
    attempts = [span for span in receiver.spans if span.parent_span_id]
    assert {span.trace_id.hex() for span in attempts} == {trace_id_of(run.id or 0, run.created_date) for run in runs}
    firsts = {(span.trace_id, span.span_id) for span in attempts if not span.links}
    linked = {(link.trace_id, link.span_id) for span in attempts for link in span.links}
    assert linked <= firsts
    assert len(attempts) == 3
    assert sum(len(span.links) for span in attempts) == sum(len(call) - 1 for call in handlers.seen)


async def test_a_run_that_is_not_among_the_share_is_not_traced(receiver: Receiver) -> None:
    async with traced(receiver.url, trace_sample_ratio=0):
        (run_id,) = await start("echo")
        assert (await ended(run_id)).status is RunStatus.COMPLETED
    assert receiver.spans == []


async def test_a_receiver_that_is_away_keeps_neither_a_step_nor_a_worker(
    database: type[Database], caplog: pytest.LogCaptureFixture
) -> None:
    async with traced(f"http://127.0.0.1:{free_port()}") as worker:
        (run_id,) = await start("echo")
        assert (await ended(run_id)).status is RunStatus.COMPLETED
        assert worker.troubles == []
    assert "Failed to export" in caplog.text or "Transient error" in caplog.text
