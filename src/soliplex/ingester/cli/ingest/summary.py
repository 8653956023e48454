"""What came of an ingestion: counts that add up, reasons, what to do next, and the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.cli.ingest.files import Why, printable
from soliplex.ingester.cli.ingest.forecast import Forecast
from soliplex.ingester.cli.ingest.forecast_words import forecast_in_words
from soliplex.ingester.cli.ingest.target import Failure, GroupProgress
from soliplex.ingester.cli.output import as_duration, as_size, counted
from soliplex.ingester.cli.stopping import STOPPED_BY_SIGNAL

SHOWN_REASONS: Final = 10
NAMED_PER_REASON: Final = 3
FILES_LISTED: Final = 20
"""Of a dry run."""


@dataclass(slots=True)
class Summary:
    """Counts of files and documents. found = unchanged + new + changed + unreadable ones, left out ones apart."""

    left_out: Counter[Why] = field(default_factory=Counter[Why])
    found: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    to_upload: int = 0
    uploaded: int = 0
    uploaded_bytes: int = 0
    batch_id: int | None = None
    resumed: bool = False
    run_group_id: int | None = None
    started: int = 0
    progress: GroupProgress | None = None
    failures: list[Failure] = field(default_factory=list[Failure])
    """Files that did not get in, each; and of the runs that failed, some."""
    files_failed: int = 0
    would_upload: list[Path] = field(default_factory=list[Path])
    forecast: Forecast | None = None
    waited: bool = True
    stopped: bool = False
    seconds: float = 0.0

    @property
    def runs_failed(self) -> int:
        return self.progress.failed + self.progress.cancelled if self.progress else 0

    @property
    def exit_code(self) -> int:
        if self.stopped:
            return STOPPED_BY_SIGNAL
        return 1 if self.files_failed or self.runs_failed else 0

    @property
    def has_nothing_to_do(self) -> bool:
        return not self.to_upload and not self.started and not self.files_failed and self.progress is None

    def as_json(self) -> dict[str, Any]:
        progress = self.progress
        return {
            "status": self.status,
            "files": {
                "found": self.found,
                "new": self.new,
                "changed": self.changed,
                "unchanged": self.unchanged,
                "left_out": {str(why): count for why, count in self.left_out.items()},
            },
            "uploaded": self.uploaded,
            "uploaded_bytes": self.uploaded_bytes,
            "not_uploaded": self.files_failed,
            "batch_id": self.batch_id,
            "run_group_id": self.run_group_id,
            "started_workflows": self.started,
            "runs": {name: getattr(progress, name) for name in ("total", "completed", "failed", "cancelled")}
            if progress
            else None,
            "failures": [
                {"uri": failure.uri, "stage": failure.stage, "reason": failure.reason} for failure in self.failures
            ],
            "would_upload": [str(path) for path in self.would_upload],
            "forecast": self.forecast.as_json() if self.forecast else None,
            "seconds": round(self.seconds, 3),
        }

    @property
    def status(self) -> str:
        if self.stopped:
            return "stopped"
        return "failed" if self.exit_code else "ok"


type Line = tuple[str, str]
"""A line of the summary, and its style."""


def in_words(summary: Summary, again: str, elsewhere: str = "") -> Iterator[Line]:
    """The summary for people.

    `again` is the command that goes on with what was stopped, `elsewhere` what commands about the group need besides.
    """
    if summary.would_upload:
        yield from _of_dry_run(summary)
        return
    yield _headline(summary)
    yield from (("  " + line, "dim") for line in _details(summary))
    yield from _failures(summary, elsewhere)
    if summary.stopped:
        yield f"  Nothing is lost. To go on:  {again}", ""


def _headline(summary: Summary) -> Line:
    if summary.stopped:
        of = f" of {summary.to_upload:,}" if summary.to_upload else ""
        ended = f", {summary.progress.completed:,} processed" if summary.progress else ""
        return f"■ Stopped: {summary.uploaded:,}{of} uploaded{ended}.", "bold yellow"
    if not summary.found and not summary.files_failed:
        return "No files found.", "bold"
    if summary.has_nothing_to_do:
        return f"✓ Nothing to do: {_all_unchanged(summary)}.", "bold green"
    mark, style = ("✗", "bold red") if summary.exit_code else ("✓", "bold green")
    return f"{mark} {_what_was_done(summary)} in {as_duration(summary.seconds)}.", style


def _all_unchanged(summary: Summary) -> str:
    return "the file is unchanged" if summary.unchanged == 1 else f"all {summary.unchanged:,} files are unchanged"


def _what_was_done(summary: Summary) -> str:
    if summary.progress is None:
        return f"{counted(summary.uploaded, 'document')} uploaded"
    if not summary.waited:
        return f"{counted(summary.progress.total, 'document')} handed over"
    done = f"{counted(summary.progress.completed, 'document')} ingested"
    failed = summary.runs_failed + summary.files_failed
    return f"{done}, {failed:,} failed" if failed else done


def _details(summary: Summary) -> Iterator[str]:
    kinds = {"new": summary.new, "changed": summary.changed, "unchanged": summary.unchanged}
    files = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
    if files and not summary.has_nothing_to_do:
        size = f" ({as_size(summary.uploaded_bytes)} uploaded)" if summary.uploaded else ""
        yield f"{counted(summary.found, 'file')}: {files}{size}"
    same = summary.uploaded - summary.started
    if same > 0 and summary.started and not summary.resumed:
        yield f"{counted(same, 'file')} with the same content as another: one document"
    if summary.left_out:
        reasons = ", ".join(f"{count:,} {_said(why, count)}" for why, count in summary.left_out.most_common())
        yield f"left out: {reasons}"
    if summary.run_group_id is not None:
        again = ", taken up again" if summary.resumed else ""
        yield f"batch {summary.batch_id}, run group {summary.run_group_id}{again}"


def _said(why: Why, count: int) -> str:
    if count == 1 or why not in {Why.LINK, Why.SPECIAL}:
        return str(why).removeprefix("a ").removeprefix("no ")
    return {Why.LINK: "links", Why.SPECIAL: "special files"}[why]


def _failures(summary: Summary, elsewhere: str) -> Iterator[Line]:
    """Reasons, the most frequent first, each with the documents it befell: a thousand may have failed for one."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for failure in summary.failures:
        by_reason.setdefault((failure.stage, failure.reason), []).append(failure.uri)
    ranked = sorted(by_reason.items(), key=lambda entry: -len(entry[1]))
    for (stage, reason), uris in ranked[:SHOWN_REASONS]:
        yield f"  ✗ {len(uris):,} at {stage}: {reason}", "red"
        yield f"      {_named(uris)}", ""
    unexplained = summary.files_failed + summary.runs_failed - sum(len(uris) for _, uris in ranked[:SHOWN_REASONS])
    if unexplained > 0:
        yield f"  ✗ {unexplained:,} more", "red"
    if summary.runs_failed and summary.run_group_id is not None and not summary.stopped:
        yield f"  To try the failed runs again:  si-cli retry {summary.run_group_id}{elsewhere}", ""


def _named(uris: list[str]) -> str:
    names = ", ".join(printable(Path(uri)) for uri in uris[:NAMED_PER_REASON])
    more = len(uris) - NAMED_PER_REASON
    return f"{names} and {more:,} more" if more > 0 else names


def _of_dry_run(summary: Summary) -> Iterator[Line]:
    for path in summary.would_upload[:FILES_LISTED]:
        yield printable(path), ""
    if (more := len(summary.would_upload) - FILES_LISTED) > 0:
        yield f"… and {more:,} more; --json lists all", "dim"
    size, kinds = as_size(summary.uploaded_bytes), f"{summary.new:,} new, {summary.changed:,} changed"
    yield (
        f"{counted(summary.to_upload, 'file')} would be uploaded ({size}): {kinds}; {summary.unchanged:,} unchanged",
        "bold",
    )
    if summary.forecast is not None:
        yield from forecast_in_words(summary.forecast)
