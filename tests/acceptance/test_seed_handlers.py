"""Handlers of a user's own, as the product's documents print them: a module on the Python path, and a workflow file."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib.models import Database, Document
from soliplex.ingester.lib.wf.definitions import workflow_from_yaml
from soliplex.ingester.lib.wf.operations import NewRun, create_run_group
from tests.support.engine import rows_of

IMPORTS = """
from typing import Any

from soliplex.ingester.lib.models import ArtifactType, Document, RunStep, WorkflowRun
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.workflow import store_artifact


async def process_document(doc: Document) -> dict[str, Any]:
    if doc.file_size == 3:
        raise PermanentError("nothing can be made of it")
    return {"size": doc.file_size}


"""
HANDLER = '''
async def custom_handler(
    run_step: RunStep,
    workflow_run: WorkflowRun,
    doc: Document,
    step_params: dict[str, Any]
) -> dict[str, Any]:
    """
    Custom workflow step handler.

    Args:
        run_step: Current step being executed
        workflow_run: Parent workflow run
        doc: Document being processed
        step_params: Parameters from config

    Returns:
        Dictionary with result metadata

    Raises:
        Exception: On failure (will trigger retry)
    """
    # Your processing logic here
    result_data = await process_document(doc)

    # Store artifacts if needed
    await store_artifact(
        doc.hash,
        ArtifactType.CUSTOM,
        result_data
    )

    return {"status": "success", "items_processed": 42}
'''
STEPS = """
item_steps:
  custom_step:
    name: My Custom Step
    retries: 2
    method: myapp.handlers.custom_handler
    parameters:
      param1: value1
"""
EVENTS = """
lifecycle_events:
  item_failed:
    - name: notify on failure
      method: myapp.notifications.send_alert
      retries: 3
      parameters:
        channel: "#alerts"
        message: "Document processing failed"
"""
NOTIFICATIONS = """
from pathlib import Path


async def send_alert(channel: str, message: str, error: str) -> None:
    Path("alerts.txt").write_text(f"{channel}: {message}: {error}")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a user's modules, workflows and documents."""
    folder = tmp_path / "home"
    files = {
        "modules/myapp/__init__.py": "",
        "modules/myapp/handlers.py": IMPORTS + HANDLER,
        "modules/myapp/notifications.py": NOTIFICATIONS,
        "workflows/custom.yaml": f"id: custom\nname: Custom\n{STEPS}{EVENTS}",
        "documents/good.txt": "good",
        "documents/bad.txt": "bad",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    path = tmp_path / "documents.db"
    shutil.copy(sqlite_template, path)
    return f"sqlite+aiosqlite:///{path}"


def si_cli(folder: Path, database_url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "modules"),
        "WORKFLOW_DIR": str(folder / "workflows"),
        "DATA_DIR": str(folder / "data"),
        "DOC_DB_URL": database_url,
    }
    command = [sys.executable, "-m", "soliplex.ingester.cli", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


async def steps_by_size(database_url: str) -> dict[int, tuple[Any, ...]]:
    await Database.initialize(database_url)
    try:
        rows = await rows_of(
            """SELECT d.file_size, r.doc_id, s.step_config_id, s.status, CAST(s.output AS text), s.status_message
                 FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id JOIN document d ON d.hash = r.doc_id"""
        )
    finally:
        await Database.close()
    return {size: tuple(facts) for size, *facts in rows}


def test_the_printed_handler_works_from_a_module_on_the_path(folder: Path, sqlite_url: str) -> None:
    ingested = si_cli(folder, sqlite_url, "ingest", "documents", "--workflow", "custom", "--quiet")
    assert "1 document ingested, 1 failed" in ingested.stdout, ingested.stderr
    see_what_was_made(folder, sqlite_url)


@pytest.mark.slow
def test_the_printed_handler_works_in_a_worker(folder: Path, database_url: str) -> None:
    ingested = si_cli(folder, database_url, "ingest", "documents", "--workflow", "custom", "--no-wait")
    assert ingested.returncode == 0, ingested.stderr
    worked = si_cli(folder, database_url, "worker", "--drain")
    assert worked.returncode == 0, worked.stderr
    see_what_was_made(folder, database_url)


def see_what_was_made(folder: Path, database_url: str) -> None:
    steps = asyncio.run(steps_by_size(database_url))
    doc_hash, config_id, status, output, _ = steps[4]
    assert (status, json.loads(output)) == ("COMPLETED", {"status": "success", "items_processed": 42})
    stored = folder / "data" / "file_store" / "custom" / str(config_id) / doc_hash[-2:] / doc_hash
    assert json.loads(stored.read_text()) == {"size": 4}
    # The other failed, and the handler of the event was told.
    assert steps[3][2:] == ("FAILED", None, "nothing can be made of it")
    alert = (folder / "alerts.txt").read_text()
    assert alert == "#alerts: Document processing failed: step 'custom_step' failed: nothing can be made of it"


@pytest.mark.slow
def test_a_module_that_is_not_there_is_named(folder: Path, sqlite_url: str) -> None:
    (folder / "modules" / "myapp" / "handlers.py").unlink()
    failed = si_cli(folder, sqlite_url, "ingest", "documents/good.txt", "--workflow", "custom", "--quiet")
    assert failed.returncode == 1
    assert (
        "handler 'myapp.handlers.custom_handler' cannot be imported: No module named 'myapp.handlers'" in failed.stdout
    )


BARE = """
async def custom_handler(run_step, workflow_run, doc, step_params):
    return {"size": doc.file_size, "step": run_step.workflow_step_name, "param1": step_params["param1"]}
"""


async def start_a_run(database_url: str, folder: Path) -> None:
    """A run of the user's workflow, which no process has begun to work off."""
    await Database.initialize(database_url)
    try:
        async with Database.session() as session:
            session.add(Document(hash="sha256-a", file_size=4, mime_type="text/plain"))
            await session.commit()
        workflow = workflow_from_yaml((folder / "workflows" / "custom.yaml").read_text())
        await create_run_group(workflow, None, [NewRun(doc_id="sha256-a")])
    finally:
        await Database.close()


async def test_the_printed_signature_works_in_a_worker_that_has_imported_nothing_else(
    folder: Path, sqlite_url: str
) -> None:
    (folder / "modules/myapp/handlers.py").write_text(BARE)
    await start_a_run(sqlite_url, folder)
    worked = await asyncio.to_thread(si_cli, folder, sqlite_url, "worker", "--drain")
    assert worked.returncode == 0, worked.stderr
    _, _, status, output, message = (await steps_by_size(sqlite_url))[4]
    assert status == "COMPLETED", message
    assert json.loads(output) == {"size": 4, "step": "custom_step", "param1": "value1"}
