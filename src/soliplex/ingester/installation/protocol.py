"""What can be asked of an installation, be it in this process or behind a server.

One suite (`tests/conformance/test_installations.py`) holds the implementations to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from soliplex.ingester.installation.local_files import LocalFile
from soliplex.ingester.installation.values import (
    Changes,
    Failure,
    Group,
    GroupProgress,
    Question,
    Retried,
    Standing,
    Started,
    Work,
)

if TYPE_CHECKING:
    from soliplex.ingester.installation.overview import Overview
    from soliplex.ingester.lib.answers import (
        Accepted,
        AuditRecord,
        CreatedKey,
        GroupCoverage,
        Hit,
        Job,
        JobSegment,
        Key,
        KnownSource,
        Redelivered,
        RolledBack,
        StoredVersion,
        VersionDiff,
        Waiting,
        Webhook,
        WebhookDetails,
    )
    from soliplex.ingester.lib.enums import Scope, WebhookStatus
    from soliplex.ingester.lib.wf.answers import FailedAttempt, GroupEta, SentSignal


class Target(Protocol):
    """Takes documents, starts workflows on them and tells how these fare."""

    is_here: bool
    """Whether the documents are processed in this process, which has to load parser and model first."""

    async def check(self, work: Work) -> None:
        """Raise what would prevent the work, before anything is uploaded."""
        ...

    async def standings(self, source: str, hashes: Mapping[str, str]) -> dict[str, Standing]:
        """Compare {uri: hash} with what is stored for the source."""
        ...

    async def metadata(self, doc_hash: str) -> Mapping[str, Any]:
        """What is known of a document that is stored."""
        ...

    async def unread(self, kinds: Collection[str], work: Work) -> Mapping[str, str]:
        """Those of the MIME types that the work cannot read, each with the reason."""
        ...

    async def uris_below(self, source: str, beginning: str) -> list[str]:
        """All URIs of the source that begin with this text, in the target's order."""
        ...

    async def delete(self, source: str, uris: Sequence[str]) -> int:
        """Delete URIs, and with its last URI each document; gives how many there were of them."""
        ...

    async def unfinished_batch(self, source: str, name: str) -> int | None:
        """The newest batch of this source and name, if it has not been completed."""
        ...

    async def create_batch(self, source: str, name: str) -> int: ...

    async def upload(
        self, file: LocalFile, *, source: str, batch_id: int, work: Work, sent: Callable[[int], None]
    ) -> None:
        """Stream a file; `sent` is told of bytes as they go. FileRefusedError if only this file is at fault."""
        ...

    async def start_workflows(self, batch_id: int, work: Work) -> Started:
        """Start a run for each document of the batch that has none yet for this workflow and these parameters."""
        ...

    async def rates(self, work: Work) -> Mapping[str, Any]:
        """How fast such documents were processed, as `/stats/processing-rates` tells; {} where that is not known."""
        ...

    def working(self) -> AbstractAsyncContextManager[None]:
        """While the block lasts, somebody works; when it ends, what is under way is finished or given back."""
        ...

    def changes(self, group_id: int) -> AbstractAsyncContextManager[Changes]:
        """Note changes of the group while the block lasts, if the installation tells of them."""
        ...

    async def has_workers(self) -> bool:
        """Whether anybody works off what is started."""
        ...

    async def loads(self, group_id: int) -> Mapping[str, str]:
        """What steps of the group load in this process before their first document is done: in words, by step."""
        ...

    async def progress(self, group_id: int) -> GroupProgress: ...

    async def failures(self, group_id: int, limit: int) -> list[Failure]:
        """Documents of the group whose run failed, the newest first."""
        ...

    async def reasons_to_wait(self, group_id: int, limit: int) -> list[Waiting]:
        """Why steps of the group wait that have failed, or that no worker can execute; the most frequent first."""
        ...

    async def with_nothing_to_index(self, group_id: int, limit: int) -> list[str]:
        """URIs of documents of the group that were processed and hold no text."""
        ...

    async def coverage(self, group_id: int) -> GroupCoverage:
        """How much of the text of the group's PDFs was read."""
        ...

    async def failed(self, source: str, beginning: str, limit: int) -> list[Failure]:
        """Documents whose last run failed or was cancelled, by source and beginning of the URI, the newest first."""
        ...

    async def retry(self, group_id: int, *, hard: bool) -> Retried:
        """Put back what failed or was cancelled; hard: all that is not completed."""
        ...


class Installation(Target, Protocol):
    """A target that can fetch documents itself, and be asked what was started before and what was ingested."""

    async def start_fetches(self, batch_id: int, uris: Sequence[str], *, source: str, work: Work) -> Started:
        """Start a run for each address, whose first step fetches the document into the batch."""
        ...

    async def groups(self, limit: int) -> tuple[Sequence[Group], int]:
        """The newest groups, and how many there are in all."""
        ...

    async def group(self, group_id: int) -> Group: ...

    async def overview(self) -> Overview:
        """What goes on now: steps by type, workers, locks, groups that have not ended, what failed within a day."""
        ...

    async def eta(self, group_id: int) -> GroupEta | None:
        """When the group will have ended; None if the installation cannot say."""
        ...

    async def attempts(self, run_id: int, limit: int) -> tuple[Sequence[FailedAttempt], int]:
        """The first attempts at the steps of a run that failed, and how many there are in all."""
        ...

    async def signal(self, key: str, payload: Any) -> SentSignal:
        """Resume the step that waits for the key, or the next one that will. Sent once, and never a second time."""
        ...

    async def webhooks(
        self, *, status: WebhookStatus | None, stream: str | None, limit: int
    ) -> tuple[Sequence[Webhook], int]:
        """The newest webhooks, and how many there are in all."""
        ...

    async def webhook(self, message_id: int) -> WebhookDetails:
        """One webhook with its body and its tries."""
        ...

    async def redeliver(self, message_id: int) -> Redelivered:
        """Try a webhook again."""
        ...

    async def redeliver_dead(self, since: datetime | None) -> Redelivered:
        """Try dead letters again: all, or those that were given up since then."""
        ...

    async def search(self, question: Question) -> list[Hit]:
        """The passages that answer best, best first."""
        ...

    async def knows(self, uri: str, source: str) -> bool:
        """Whether anything ever lived there."""
        ...

    async def find(self, text: str, limit: int) -> list[tuple[str, str]]:
        """URIs that contain the text, each with its source."""
        ...

    async def sources(self) -> list[KnownSource]:
        """The sources that documents come from, by name."""
        ...

    async def text(self, uri: str, source: str, version: int | None) -> str:
        """What was read from a version of a document, as Markdown; None: the current one."""
        ...

    async def versions(self, uri: str, source: str, limit: int) -> tuple[Sequence[StoredVersion], int]:
        """The newest versions, and how many there are in all."""
        ...

    async def diff(
        self, uri: str, source: str, from_version: int | None, to_version: int | None, *, context: int
    ) -> VersionDiff: ...

    async def roll_back(self, uri: str, source: str, version: int, work: Work) -> RolledBack: ...

    async def start_job(self, file: LocalFile, options: Mapping[str, str]) -> Accepted:
        """Have a file cut into articles. FileRefusedError if only this file is at fault."""
        ...

    async def job(self, job_id: str) -> Job: ...

    async def cancel_job(self, job_id: str) -> None:
        """Stop a job, unless it has ended already."""
        ...

    async def delete_job(self, job_id: str) -> None:
        """Delete a job with its document and articles."""
        ...

    async def articles(self, document_id: int) -> list[JobSegment]:
        """The articles of a job's document that are done, in its order."""
        ...

    async def create_key(self, name: str, scopes: Collection[Scope], *, expires_in_days: float | None) -> CreatedKey:
        """Make a named API key. It can be read in the answer, and nowhere else."""
        ...

    async def keys(self, *, revoked: bool, limit: int) -> tuple[Sequence[Key], int]:
        """The newest named keys, and how many there are in all; with `revoked` those too that are revoked."""
        ...

    async def revoke_key(self, name: str) -> Key: ...

    async def audit(self, *, actor: str | None, action: str | None, limit: int) -> tuple[Sequence[AuditRecord], int]:
        """The newest entries of the audit log, and how many there are in all."""
        ...
