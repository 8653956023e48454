"""Settings are read where a process starts, and passed down; only fronts ask for the current wiring."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import soliplex.ingester

SOURCE: Final = Path(soliplex.ingester.__file__).parent

STARTS: Final = {
    "cli/": "a command is where a process starts",
    "migrations/env.py": "Alembic's own command is where a process starts",
    "server/__init__.py": "create_app",
    "installation/which_installation.py": "open_installation",
}
HANDLERS: Final = {
    "lib/workflow/": "workflow files name its functions",
    "lib/webhooks/delivering.py": "as lib/workflow",
    "goals/shipped.py": "as lib/workflow",
    "segmenter/jobs/handlers.py": "as lib/workflow",
    "segmenter/jobs/describing.py": "what the handlers of a process remember of documents",
    "example/": "as lib/workflow",
}
FRONTS: Final = {
    "goals/composer.py": "WorkflowComposer",
    "goals/decomposers.py": "LlmDecomposer",
    "goals/notifications.py": "OrchestratorNotifications",
    "goals/optimizer/optimizer.py": "OrchestratorOptimizer",
    "goals/orchestrator.py": "Orchestrator",
    "lib/models/database.py": "Database",
    "lib/wf/catalog.py": "get_registry, and what the settings choose from it",
    "lib/wf/extensions.py": "what handlers may ask for by name",
    "lib/wf/operations/belonging.py": "as extensions",
    "lib/wf/progress.py": "the reports of the handlers of a process",
    "lib/wf/retries.py": "the waits of a step that says nothing of its own",
    "lib/wf/runner.py": "WorkerConfig(), Worker(), start_worker()",
    "lib/wf/wakeup.py": "work_is_ready()",
    "lib/wf/isolation/host.py": "what a process is started with",
    "lib/wf/tracing/carrying.py": "where the spans of a handler's process go",
    "lib/storage/configured_artifacts.py": "get_artifacts()",
    "lib/parsing/registry.py": "parser_named(), chosen_parser_name()",
    "lib/parsing/limits.py": "the longest text",
    "lib/embedding/": "open_embedder(), open_cached_embedder() of callers that name no settings",
    "lib/vectors.py": "identity_of()",
    "lib/fetching/fetcher.py": "fetch()",
    "lib/rag/folder.py": "where RAG databases are",
    "lib/rag/readers.py": "readers_kept()",
    "lib/operations/apart.py": "kept_apart()",
    "lib/operations/group_coverage.py": "the share of words below which a warning is due",
    "lib/operations/recording.py": "uploads that arrive together",
    "segmenter/jobs/workflow.py": "the workflow of jobs, as the settings make it",
    "server/connections.py": "a connection to an application that says nothing of its settings",
}
"""The modules that may ask for the current wiring, each with what of it is called by its name."""

ASKING: Final = frozenset({"get_settings", "current_wiring", "packed_settings", "wiring_for"})
REGISTRY: Final = {
    **STARTS,
    **HANDLERS,
    "lib/wf/": "the engine, whose operations are called by their names",
    "lib/operations/workflow_starts.py": "what is to be run, by ids that clients send",
    "segmenter/jobs/new_jobs.py": "whether a file defines another workflow under the name of ours",
    "server/parameters.py": "the registry of an application, for its routes",
}


@cache
def trees() -> dict[str, ast.Module]:
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


@cache
def calls_of(names: frozenset[str]) -> dict[str, list[int]]:
    """Where any of the functions is called: the lines, by module."""
    found = {
        module: [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) in names]
        for module, tree in trees().items()
    }
    return {module: lines for module, lines in found.items() if lines}


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _outside(allowed: dict[str, str], found: dict[str, list[int]]) -> dict[str, list[int]]:
    return {module: lines for module, lines in found.items() if not module.startswith(tuple(allowed))}


def test_only_fronts_and_beginnings_ask_for_settings() -> None:
    unexpected = _outside({**STARTS, **HANDLERS, **FRONTS}, calls_of(ASKING))
    assert not unexpected, "take settings as an argument; if it is a front, say so in FRONTS"


def test_only_the_engine_and_beginnings_ask_for_the_registry() -> None:
    unexpected = _outside(REGISTRY, calls_of(frozenset({"get_registry"})))
    assert not unexpected, "take the registry as an argument, or use chosen_definitions()"


@pytest.mark.parametrize("module", [*STARTS, *HANDLERS, *FRONTS])
def test_each_module_that_may_ask_does(module: str) -> None:
    assert any(found.startswith(module) for found in calls_of(ASKING | {"get_registry"}))


def test_no_function_changes_a_global() -> None:
    changed = {module for module, tree in trees().items() for node in ast.walk(tree) if isinstance(node, ast.Global)}
    assert not changed, "keep it in the wiring: current_wiring().kept(...)"


def test_importing_the_program_reads_no_settings() -> None:
    """What is read at import would hold for processes that are given other settings afterwards."""
    program = (
        "import soliplex.ingester.lib.wiring as wiring\n"
        "def refuse(*_): raise AssertionError('settings are read at import')\n"
        "wiring.Wiring.settings = property(refuse)\n"
        "import soliplex.ingester.server, soliplex.ingester.lib.workflow.extension, soliplex.ingester.lib.wf.flows\n"
        "import soliplex.ingester.segmenter.jobs.handlers\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
