"""What came of an ingestion, for people: words, what to do next, and the exit code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from soliplex.ingester.cli.ingest.forecast_words import forecast_in_words
from soliplex.ingester.cli.output import as_duration, as_size, counted
from soliplex.ingester.cli.stop_signals import STOPPED_BY_SIGNAL
from soliplex.ingester.installation.local_files import Why, printable
from soliplex.ingester.installation.summary import Summary
from soliplex.ingester.installation.values import Failure

SHOWN_REASONS: Final = 10
NAMED_PER_REASON: Final = 3
NO_USE: Final = "Trying again as they are cannot help: change the files, or delete what is known of them."
FILES_LISTED: Final = 20
"""How many files the summary of a dry run names."""


def exit_code_of(summary: Summary) -> int:
    return STOPPED_BY_SIGNAL if summary.stopped else int(summary.has_failures)


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
    yield from _read_in_part(summary, elsewhere)
    yield from _failures(summary, elsewhere)
    yield from _failures_before(summary, again)
    yield from _would_delete(summary) if summary.is_dry_run else _gone(summary)
    if summary.stopped:
        yield f"  Nothing is lost. To go on:  {again}", ""


def _headline(summary: Summary) -> Line:
    if summary.stopped:
        of = f" of {summary.to_upload:,}" if summary.to_upload else ""
        ended = f", {summary.progress.completed:,} processed" if summary.progress else ""
        return f"■ Stopped: {summary.uploaded:,}{of} uploaded{ended}.", "bold yellow"
    if not summary.found and not summary.files_failed:
        return ("No files that can be read." if summary.unread else "No files found."), "bold"
    if summary.has_nothing_to_do and summary.failed_before:
        failed = f"{len(summary.failed_before):,} could not be processed before"
        return f"✗ Nothing new: {_all_unchanged(summary)}, but {failed}.", "bold red"
    if summary.has_nothing_to_do:
        return f"✓ Nothing to do: {_all_unchanged(summary)}.", "bold green"
    mark, style = ("✗", "bold red") if summary.has_failures else ("✓", "bold green")
    if (
        not summary.has_failures
        and summary.progress
        and summary.progress.completed == len(summary.nothing_to_index) > 0
    ):
        mark, style = "■", "bold yellow"  # no document had any text
    return f"{mark} {_what_was_done(summary)} in {as_duration(summary.seconds)}.", style


def _all_unchanged(summary: Summary) -> str:
    return "the file is unchanged" if summary.unchanged == 1 else f"all {summary.unchanged:,} files are unchanged"


def _what_was_done(summary: Summary) -> str:
    if summary.progress is None:
        return f"{counted(summary.uploaded, 'document')} uploaded"
    if not summary.waited:
        return f"{counted(summary.progress.total, 'document')} handed over"
    blank = len(summary.nothing_to_index)
    done = f"{counted(max(0, summary.progress.completed - blank), 'document')} ingested"
    if blank:
        done += f", {blank:,} with nothing to index"
    failed = summary.runs_failed + summary.files_failed
    return f"{done}, {failed:,} failed" if failed else done


def _details(summary: Summary) -> Iterator[str]:
    kinds = {"new": summary.new, "changed": summary.changed, "unchanged": summary.unchanged}
    files = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
    if files and not summary.has_nothing_to_do:
        size = f" ({as_size(summary.uploaded_bytes)} uploaded)" if summary.uploaded else ""
        yield f"{counted(summary.found, 'file')}: {files}{size}"
    if summary.sidecars:
        yield f"{counted(summary.sidecars, 'sidecar')} (.meta.json) taken as metadata"
    same = summary.uploaded - summary.started
    if same > 0 and summary.started and not summary.resumed:
        yield f"{counted(same, 'file')} with the same content as another: one document"
    if summary.left_out:
        reasons = ", ".join(f"{count:,} {_said(why, count)}" for why, count in summary.left_out.most_common())
        yield f"left out: {reasons}"
    for why, uris in sorted(summary.unread.items(), key=lambda entry: -len(entry[1]))[:SHOWN_REASONS]:
        yield f"    {len(uris):,} left out: {why}: {_named(uris)}"
    if summary.nothing_to_index:
        yield f"nothing to index, no text was found: {_named(summary.nothing_to_index)}"
    if summary.run_group_id is not None:
        again = ", taken up again" if summary.resumed else ""
        yield f"batch {summary.batch_id}, run group {summary.run_group_id}{again}"


def _said(why: Why, count: int) -> str:
    if why is Why.GENERATED:
        return f"{'folder' if count == 1 else 'folders'} of {why} (--all-folders takes them)"
    if count == 1 or why not in {Why.LINK, Why.SPECIAL}:
        return str(why).removeprefix("a ").removeprefix("no ")
    return {Why.LINK: "links", Why.SPECIAL: "special files"}[why]


def _read_in_part(summary: Summary, elsewhere: str) -> Iterator[Line]:
    documents = summary.read_in_part
    if not documents:
        return
    yield f"  {counted(len(documents), 'PDF')} read only in part, words are missing:", "yellow"
    shares = [f"{printable(Path(each.uri or ''))} ({each.coverage:.0%} read)" for each in documents[:NAMED_PER_REASON]]
    more = len(documents) - NAMED_PER_REASON
    yield f"      {', '.join(shares)}{f' and {more:,} more' if more > 0 else ''}", ""
    if summary.run_group_id is not None:
        yield f"      si-cli status {summary.run_group_id}{elsewhere} tells how many", ""


def _failures(summary: Summary, elsewhere: str) -> Iterator[Line]:
    """The reasons of failures, the most frequent first, each with the documents that failed for it."""
    shown = list(_reasons(summary.failures))
    yield from (line for _, *lines in shown for line in lines)
    unexplained = summary.files_failed + summary.runs_failed - sum(count for count, *_ in shown)
    if unexplained > 0:
        yield f"  ✗ {unexplained:,} more", "red"
    if not summary.runs_failed or summary.run_group_id is None or summary.stopped:
        return
    if any(failure.can_retry for failure in summary.failures if failure.run_group_id is not None):
        yield f"  To try the failed runs again:  si-cli retry {summary.run_group_id}{elsewhere}", ""
    else:
        yield f"  {NO_USE}", ""


def _failures_before(summary: Summary, again: str) -> Iterator[Line]:
    failed = summary.failed_before
    shown = list(_reasons(failed, "failed before, "))
    yield from (line for _, *lines in shown for line in lines)
    if (more := len(failed) - sum(count for count, *_ in shown)) > 0:
        yield f"  ✗ {more:,} more failed before", "red"
    if any(failure.can_retry for failure in failed):
        yield f"  To try them again:  {again} --retry-failed", ""
    elif failed:
        yield f"  {NO_USE}", ""


def _reasons(failures: list[Failure], when: str = "") -> Iterator[tuple[int, Line, Line]]:
    """For the most frequent reasons: how many documents, and two lines about them."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for failure in failures:
        by_reason.setdefault((failure.stage, failure.reason), []).append(failure.uri)
    ranked = sorted(by_reason.items(), key=lambda entry: -len(entry[1]))
    for (stage, reason), uris in ranked[:SHOWN_REASONS]:
        yield len(uris), (f"  ✗ {len(uris):,} {when}at {stage}: {reason}", "red"), (f"      {_named(uris)}", "")


def _gone(summary: Summary) -> Iterator[Line]:
    if summary.deleted:
        yield f"  {_files_gone(summary.deleted)}, and deleted here too", ""
    elif summary.not_deleted:
        count = _files_gone(len(summary.missing.uris))
        yield f"  ✗ {count}, but not deleted here: {summary.not_deleted}", "red"
    elif summary.missing.uris and not summary.stopped:
        yield f"  {_files_gone(len(summary.missing.uris))} and still found by searches:", "yellow"
        yield f"      {_named(summary.missing.uris)}", ""
        yield "      --delete-missing deletes them; --dry-run lists them", ""


def _files_gone(count: int) -> str:
    return f"{counted(count, 'known file')} {'is' if count == 1 else 'are'} gone"


def _named(uris: list[str]) -> str:
    names = ", ".join(printable(Path(uri)) for uri in uris[:NAMED_PER_REASON])
    more = len(uris) - NAMED_PER_REASON
    return f"{names} and {more:,} more" if more > 0 else names


def _of_dry_run(summary: Summary) -> Iterator[Line]:
    for path in summary.would_upload[:FILES_LISTED]:
        yield printable(path), ""
    if (more := len(summary.would_upload) - FILES_LISTED) > 0:
        yield f"… and {more:,} more; --json lists all", "dim"
    yield from _would_delete(summary)
    size, kinds = as_size(summary.uploaded_bytes), f"{summary.new:,} new, {summary.changed:,} changed"
    yield (
        f"{counted(summary.to_upload, 'file')} would be uploaded ({size}): {kinds}; {summary.unchanged:,} unchanged",
        "bold",
    )
    if summary.forecast is not None:
        yield from forecast_in_words(summary.forecast)


def _would_delete(summary: Summary) -> Iterator[Line]:
    gone = summary.missing.uris
    if not gone:
        return
    for uri in gone[:FILES_LISTED]:
        yield f"gone: {printable(Path(uri))}", "yellow"
    if (more := len(gone) - FILES_LISTED) > 0:
        yield f"… and {more:,} more; --json lists all", "dim"
    if not summary.deletes_missing:
        yield f"{_files_gone(len(gone))}; --delete-missing would delete them", "bold"
    elif summary.not_deleted:
        yield f"{_files_gone(len(gone))}, but would not be deleted: {summary.not_deleted}", "bold red"
    else:
        yield f"{_files_gone(len(gone))}, and would be deleted", "bold"
