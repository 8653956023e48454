"""What came of an ingestion: counts that add up, and reasons."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from soliplex.ingester.installation.forecast import Forecast
from soliplex.ingester.installation.local_files import Why
from soliplex.ingester.installation.missing import Missing
from soliplex.ingester.installation.values import Failure, GroupProgress
from soliplex.ingester.lib.answers import DocumentCoverage


@dataclass(slots=True)
class Summary:
    """Counts of files and documents. found = unchanged + new + changed + unreadable ones, left out ones apart."""

    left_out: Counter[Why] = field(default_factory=Counter[Why])
    unread: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The URIs of files that are left out because of their kind, by reason."""
    sidecars: int = 0
    """Files that hold the metadata of others."""
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
    """All files that could not be uploaded, and some of the runs that failed."""
    files_failed: int = 0
    nothing_to_index: list[str] = field(default_factory=list[str])
    """URIs of documents that were processed and hold no text."""
    read_in_part: list[DocumentCoverage] = field(default_factory=list[DocumentCoverage])
    """PDFs of which fewer words were read than the parse step warns of, those with the lowest share first."""
    failed_before: list[Failure] = field(default_factory=list[Failure])
    """Files that are unchanged, and could not be processed before; those that are run again now are not among them."""
    retried: list[Failure] = field(default_factory=list[Failure])
    missing: Missing = field(default_factory=Missing)
    """Known files that are gone."""
    is_dry_run: bool = False
    deletes_missing: bool = False
    """Whether missing files are to be deleted."""
    deleted: int = 0
    not_deleted: str = ""
    """Why those that are gone were not deleted, though that was asked for."""
    would_upload: list[Path] = field(default_factory=list[Path])
    forecast: Forecast | None = None
    waited: bool = True
    stopped: bool = False
    seconds: float = 0.0

    @property
    def runs_failed(self) -> int:
        return self.progress.failed + self.progress.cancelled if self.progress else 0

    @property
    def has_failures(self) -> bool:
        """Whether anything that was asked for did not come about, this time or before."""
        return bool(self.files_failed or self.runs_failed or self.failed_before or self.not_deleted)

    @property
    def has_nothing_to_do(self) -> bool:
        return not self.to_upload and not self.started and not self.files_failed and self.progress is None

    @property
    def status(self) -> str:
        """In one word: ok, failed or stopped."""
        if self.stopped:
            return "stopped"
        return "failed" if self.has_failures else "ok"

    def as_json(self) -> dict[str, Any]:
        """The summary as JSON values, for programs."""
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
            "sidecars": self.sidecars,
            "unread": [{"uri": uri, "reason": why} for why, uris in self.unread.items() for uri in uris],
            "missing": self.missing.uris,
            "deleted": self.deleted,
            "not_deleted_because": self.not_deleted or None,
            "uploaded": self.uploaded,
            "uploaded_bytes": self.uploaded_bytes,
            "not_uploaded": self.files_failed,
            "batch_id": self.batch_id,
            "run_group_id": self.run_group_id,
            "started_workflows": self.started,
            "runs": {name: getattr(progress, name) for name in ("total", "completed", "failed", "cancelled")}
            if progress
            else None,
            "failures": [_as_json(failure) for failure in self.failures],
            "nothing_to_index": self.nothing_to_index,
            "read_in_part": [_in_part_as_json(each) for each in self.read_in_part],
            "failed_before": [_as_json(failure) for failure in self.failed_before],
            "retried": len(self.retried),
            "would_upload": [str(path) for path in self.would_upload],
            "forecast": self.forecast.as_json() if self.forecast else None,
            "seconds": round(self.seconds, 3),
        }


def _as_json(failure: Failure) -> dict[str, Any]:
    return {name: getattr(failure, name) for name in ("uri", "stage", "reason", "can_retry")}


def _in_part_as_json(document: DocumentCoverage) -> dict[str, Any]:
    return {name: getattr(document, name) for name in ("uri", "coverage", "missing_words")}
