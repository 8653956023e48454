"""`si-diag`: the table of its commands, and its entry point."""

from __future__ import annotations

from soliplex.ingester.cli.lazy import Group
from soliplex.ingester.cli.program import run_program

COMMANDS: dict[str, str | Group] = {
    "batch": Group("Batches.", {"list": "soliplex.ingester.cli.groups:list_batches"}),
    "document": Group(
        "Documents.",
        {
            "list": "soliplex.ingester.diag.documents:list_documents",
            "find": "soliplex.ingester.diag.documents:find_documents",
            "info": "soliplex.ingester.diag.documents:document_info",
            "history": "soliplex.ingester.diag.documents:document_history",
        },
    ),
    "config": Group(
        "Workflows and parameter sets.",
        {
            "workflows": "soliplex.ingester.cli.definitions:list_workflows",
            "workflow-def": "soliplex.ingester.cli.definitions:dump_workflow",
            "params": "soliplex.ingester.cli.definitions:list_param_sets",
            "param-def": "soliplex.ingester.cli.definitions:dump_param_set",
        },
    ),
    "run-group": Group(
        "Groups of runs that were started together.",
        {
            "list": "soliplex.ingester.diag.runs:list_groups",
            "info": "soliplex.ingester.diag.runs:group_info",
            "steps": "soliplex.ingester.diag.runs:group_steps",
            "step-stats": "soliplex.ingester.diag.runs:group_step_stats",
        },
    ),
    "run": "soliplex.ingester.diag.runs:run_info",
    "workflow": Group(
        "Workflow runs.",
        {
            "list": "soliplex.ingester.diag.runs:list_runs",
            "info": "soliplex.ingester.diag.runs:run_info",
            "reset": "soliplex.ingester.diag.runs:reset_run",
        },
    ),
    "status": Group(
        "What is going on.",
        {
            "running": "soliplex.ingester.diag.runs:running",
            "recent": "soliplex.ingester.diag.runs:recent",
            "queues": "soliplex.ingester.diag.queues:list_queues",
            "waiting": "soliplex.ingester.diag.queues:list_waiting",
            "failures": "soliplex.ingester.diag.queues:list_causes",
            "details": "soliplex.ingester.cli.groups:status",
        },
    ),
    "lancedb": Group(
        "RAG databases.",
        {
            "vacuum": "soliplex.ingester.cli.rag:vacuum",
            "vacuum-all": "soliplex.ingester.cli.rag:vacuum_all_rag",
            "verify": "soliplex.ingester.cli.rag:verify_db",
        },
    ),
    "lock": Group(
        "Locks on RAG databases and other resources.",
        {
            "list": "soliplex.ingester.diag.locks:list_locks",
            "release": "soliplex.ingester.diag.locks:release_lock",
        },
    ),
    "worker": Group("Workers.", {"list": "soliplex.ingester.diag.workers:list_workers"}),
}


def main() -> None:
    """Run `si-diag`."""
    run_program("si-diag", "Look into an installation of Soliplex Ingester.", COMMANDS)
