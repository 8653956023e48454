"""The spans of attempts and runs, and where they are sent: to an OTLP receiver over HTTP, in the background.

An attempt's span is the current one while its handler is called, so what the handler traces itself stands below it.
The span of a run is sent when a worker has recorded the end of the run. A receiver that is away, or slow, keeps no step
waiting: spans wait in a queue, and those that find it full are dropped, of which the log tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from importlib.metadata import version
from typing import Any, Final, override

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, ProxyTracerProvider, Span, SpanContext, Status, StatusCode
from opentelemetry.trace import TraceFlags as Flags

from soliplex.ingester.lib.models.transactions import Row, datetime_of
from soliplex.ingester.lib.wf.tracing.ids import TraceIds, trace_ids_of
from soliplex.ingester.lib.wf.work import ClaimedStep, Completed, Errored, Expanded, Parked, Released, Result

_NAME: Final = "soliplex.ingester"
_VERSION: Final = version("soliplex-ingester")
_UNNAMED: Final = "unknown_service"
"""How OpenTelemetry calls a service without a name."""
_PATH: Final = "/v1/traces"
_LONGEST_EXPORT: Final = 5.0
_BETWEEN_EXPORTS_MS: Final = 1000
_WAITING: Final = 20_000
"""Spans that may wait to be sent."""


class Tracing:
    """Traces runs, and sends what is traced."""

    def __init__(self, endpoint: str, *, ratio: float = 1.0) -> None:
        url = endpoint if endpoint.endswith(_PATH) else endpoint + _PATH
        self._exporter = _PatientExporter(OTLPSpanExporter(url, timeout=_LONGEST_EXPORT))
        self._sending = BatchSpanProcessor(
            self._exporter, max_queue_size=_WAITING, schedule_delay_millis=_BETWEEN_EXPORTS_MS
        )
        self._resource = _resource()
        # What is part of no run is not traced: libraries, such as that of the server, trace each request on their own.
        self._provider = TracerProvider(resource=self._resource, sampler=ParentBased(ALWAYS_OFF))
        self._provider.add_span_processor(self._sending)
        self._tracer = self._provider.get_tracer(_NAME, _VERSION)
        self._ratio = ratio
        if isinstance(trace.get_tracer_provider(), ProxyTracerProvider):
            trace.set_tracer_provider(self._provider)  # so that spans of handlers go the same way

    async def traced(self, steps: Sequence[ClaimedStep], attempt: Awaitable[list[Result]]) -> list[Result]:
        """Await the attempt at these steps, with a span for each."""
        spans = {step.id: self._begun(step) for step in steps}
        first, *others = spans.values()
        for other in others:  # the handler is called once: what it traces stands below the first
            other.add_link(first.get_span_context())
        with ExitStack() as at_the_end:
            for span in spans.values():
                at_the_end.callback(span.end)
            with trace.use_span(first, record_exception=False, set_status_on_exception=False):
                try:
                    results = await attempt
                except asyncio.CancelledError:
                    for span in spans.values():
                        span.set_attribute("soliplex.outcome", "cancelled")
                    raise
            for result in results:
                _note_outcome(spans[result.step_id], result)
        return results

    def trace_id_of(self, step: ClaimedStep) -> str | None:
        """The id of the trace that an attempt at the step is part of, if its run is traced."""
        ids = trace_ids_of(step.run_id, _moment(step.run, "created_date"))
        return ids.hex if ids.is_sampled(self._ratio) else None

    def _begun(self, step: ClaimedStep) -> Span:
        ids = trace_ids_of(step.run_id, _moment(step.run, "created_date"))
        run = _context(ids, is_sampled=ids.is_sampled(self._ratio))
        return self._tracer.start_span(
            step.name, trace.set_span_in_context(NonRecordingSpan(run)), attributes=_facts_of_attempt(step)
        )

    def send_run(self, run: Row) -> None:
        """Send the span of a run that has ended."""
        ids = trace_ids_of(run["id"], _moment(run, "created_date"))
        if ids.is_sampled(self._ratio) and run["completed_date"] is not None:
            self._sending.on_end(self._span_of_run(run, ids))

    def _span_of_run(self, run: Row, ids: TraceIds) -> ReadableSpan:
        failed = run["status"] == "FAILED"
        links: list[Link] = []
        if run["parent_run_id"] is not None:
            parent = trace_ids_of(run["parent_run_id"], _moment(run, "parent_created_date"))
            links.append(Link(_context(parent, is_sampled=True)))
        return ReadableSpan(
            name=run["workflow_definition_id"],
            context=_context(ids, is_sampled=True),
            resource=self._resource,
            attributes=_facts_of_run(run),
            links=links,
            status=Status(StatusCode.ERROR, run["status_message"]) if failed else Status(StatusCode.OK),
            start_time=_nanoseconds(datetime_of(run, "start_date") or _moment(run, "created_date")),
            end_time=_nanoseconds(_moment(run, "completed_date")),
            instrumentation_scope=InstrumentationScope(_NAME, _VERSION),
        )

    async def flush(self) -> None:
        """Send what waits to be sent, unless the receiver does not take it."""
        self._exporter.is_in_haste = True
        try:
            await asyncio.to_thread(self._sending.force_flush)
        finally:
            self._exporter.is_in_haste = False

    def shutdown(self) -> None:
        """Send nothing more, and end what sends in the background."""
        self._provider.shutdown()


class _PatientExporter(SpanExporter):
    """Sends spans. In haste, it gives up after the first that cannot be sent: the receiver is away."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._has_failed = False
        self.is_in_haste = False

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self.is_in_haste and self._has_failed:
            return SpanExportResult.FAILURE
        result = self._exporter.export(spans)
        self._has_failed = result is not SpanExportResult.SUCCESS
        return result

    @override
    def shutdown(self) -> None:
        self._exporter.shutdown()


def _resource() -> Resource:
    """What all spans say of their sender; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES may say more."""
    made = Resource.create({"service.version": _VERSION})
    if str(made.attributes["service.name"]).startswith(_UNNAMED):
        return made.merge(Resource({"service.name": "soliplex-ingester"}))
    return made


def _context(ids: TraceIds, *, is_sampled: bool) -> SpanContext:
    flags = Flags(Flags.SAMPLED if is_sampled else Flags.DEFAULT)
    return SpanContext(ids.trace_id, ids.span_id, is_remote=True, trace_flags=flags)


def _facts_of_attempt(step: ClaimedStep) -> dict[str, Any]:
    facts = {
        "run_id": step.run_id,
        "run_group_id": step.group_id,
        "batch_id": step.run["batch_id"],
        "doc_id": step.run["doc_id"],
        "workflow": step.workflow_id,
        "step_id": step.id,
        "step_type": step.type,
        "item_index": step.row["item_index"],
        "attempt": step.retry + 1,
        "calls_before": step.row["repeats"],
        "worker": step.worker_id,
    }
    return _named(facts)


def _facts_of_run(run: Row) -> dict[str, Any]:
    created, started = _moment(run, "created_date"), datetime_of(run, "start_date")
    facts = {
        "run_id": run["id"],
        "run_group_id": run["run_group_id"],
        "batch_id": run["batch_id"],
        "doc_id": run["doc_id"],
        "workflow": run["workflow_definition_id"],
        "status": run["status"],
        "waited_seconds": None if started is None else (started - created).total_seconds(),
        "parent_run_id": run["parent_run_id"],
    }
    return _named(facts)


def _named(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {f"soliplex.{name}": value for name, value in facts.items() if value is not None}


def _note_outcome(span: Span, result: Result) -> None:
    match result:
        case Completed():
            span.set_attribute("soliplex.outcome", "completed")
            span.set_status(StatusCode.OK)
        case Errored():
            _note_error(span, result)
        case Parked():
            span.set_attribute("soliplex.outcome", "waits")
        case Released():
            span.set_attribute("soliplex.outcome", "given back")
        case Expanded():
            span.set_attribute("soliplex.outcome", "expanded")


def _note_error(span: Span, result: Errored) -> None:
    """As the conventions of OpenTelemetry have it: a status, and an event with the exception."""
    meta = result.meta or {}
    span.set_attribute("soliplex.outcome", "failed")
    span.set_attribute("soliplex.is_permanent", result.permanent)
    span.add_event(
        "exception",
        {
            "exception.type": str(meta.get("error_type", "")),
            "exception.message": result.message,
            "exception.stacktrace": str(meta.get("traceback", "")),
        },
    )
    span.set_status(StatusCode.ERROR, result.message)


def _moment(row: Row, name: str) -> datetime:
    moment = datetime_of(row, name)
    assert moment is not None
    return moment


def _nanoseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000) * 1000
