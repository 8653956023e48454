"""Documents through a workflow by a worker, as a test looks at them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.operations import NewDocument
from soliplex.ingester.lib.wf.registry import Registry
from tests.support.documents import pieces
from tests.support.engine import rows_of
from tests.support.faults import eventually

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = "shelf"


class Outcome(NamedTuple):
    """How a document's run ended: its status, the last step that was executed, and what that said or made."""

    status: str
    step: str
    words: str


def registry_with(folder: Path, params: str, workflows: Path = ROOT / "config" / "workflows") -> Registry:
    """The shipped workflows with one parameter set, named `quick`."""
    folder.mkdir(exist_ok=True)
    (folder / "quick.yaml").write_text(f"id: quick\nname: Quick\nconfig:\n{params}")
    return Registry(workflows, folder)


async def put_all(files: Mapping[str, bytes], batch_id: int) -> dict[str, str]:
    """Upload documents under their names; gives their hashes."""
    return {name: await put(name, content, batch_id) for name, content in files.items()}


async def put(name: str, content: bytes, batch_id: int) -> str:
    new = NewDocument(uri=f"/{name}", source=SOURCE, batch_id=batch_id)
    return (await documents.upload_document(pieces(content), new)).doc_hash


async def start(files: Mapping[str, bytes], workflow_id: str) -> int:
    """Upload documents and start a workflow over them; gives the batch."""
    batch_id = await documents.create_batch(SOURCE, "batch")
    await put_all(files, batch_id)
    await documents.start_workflows(batch_id, workflow_id=workflow_id, param_id="quick")
    return batch_id


async def outcomes(batch_id: int, *, within: float = 300) -> dict[str, Outcome]:
    """Wait until the batch has ended; gives what came of each document."""
    await eventually(lambda: _has_ended(batch_id), "the batch has ended", within=within)
    found: dict[str, Outcome] = {}
    for uri, status, step, step_status, message, output in await steps_of(batch_id):
        if step_status in {"FAILED", "COMPLETED"}:
            found[uri[1:]] = Outcome(status, step, message or output or "")
    return found


async def steps_of(batch_id: int) -> list[Any]:
    return await rows_of(
        """SELECT u.uri, r.status, s.workflow_step_name, s.status, s.status_message, CAST(s.output AS text)
             FROM workflowrun r JOIN runstep s ON s.workflow_run_id = r.id JOIN documenturi u ON u.doc_hash = r.doc_id
            WHERE r.batch_id = :id ORDER BY r.id, s.workflow_step_number""",
        id=batch_id,
    )


async def _has_ended(batch_id: int) -> bool:
    return (await rows_of("SELECT completed_date FROM documentbatch WHERE id = :id", id=batch_id))[0][0] is not None
