"""`si-cli`: the table of its commands, and its entry point."""

from __future__ import annotations

from soliplex.ingester.cli.lazy import Group
from soliplex.ingester.cli.program import run_program

# A new command is one line: its name, and the function, coroutine function or Typer app that it is.
COMMANDS: dict[str, str | Group] = {
    "bootstrap": "soliplex.ingester.cli.bootstrap:bootstrap",
    "validate-settings": "soliplex.ingester.cli.settings:validate_settings",
    "init-env": "soliplex.ingester.cli.settings:init_env",
    "db-init": "soliplex.ingester.cli.database:db_init",
    "init-config": "soliplex.ingester.cli.settings:init_config",
    "serve": "soliplex.ingester.cli.serve:serve",
    "worker": "soliplex.ingester.cli.worker:worker",
    "ingest": "soliplex.ingester.cli.ingest.ingest_command:ingest",
    "fetch": "soliplex.ingester.cli.fetch:fetch",
    "delete": "soliplex.ingester.cli.delete:delete",
    "list-batches": "soliplex.ingester.cli.groups:list_batches",
    "status": "soliplex.ingester.cli.groups:status",
    "retry": "soliplex.ingester.cli.groups:retry",
    "mcp": "soliplex.ingester.cli.mcp:mcp",
    "signal": "soliplex.ingester.cli.signal:signal",
    "segment": "soliplex.ingester.cli.segment:segment",
    "goal": "soliplex.ingester.cli.goal:goal",
    "search": "soliplex.ingester.cli.search:search",
    "versions": "soliplex.ingester.cli.versions:versions",
    "diff": "soliplex.ingester.cli.versions:diff",
    "rollback": "soliplex.ingester.cli.versions:rollback",
    "top": "soliplex.ingester.cli.top.top_command:top",
    "stats": "soliplex.ingester.cli.stats:stats",
    "schedule": Group(
        "Workflows that are started again and again.",
        {
            "add": "soliplex.ingester.cli.schedule:add",
            "list": "soliplex.ingester.cli.schedule:list_",
            "pause": "soliplex.ingester.cli.schedule:pause",
            "resume": "soliplex.ingester.cli.schedule:resume",
            "remove": "soliplex.ingester.cli.schedule:remove",
        },
    ),
    "flow": Group(
        "Graphs of work that are not about documents.",
        {
            "create": "soliplex.ingester.cli.flow:create",
            "show": "soliplex.ingester.cli.flow:show",
            "list": "soliplex.ingester.cli.flow:list_",
            "run": "soliplex.ingester.cli.flow:run",
            "optimize": "soliplex.ingester.cli.optimize:optimize",
            "status": "soliplex.ingester.cli.flow:status",
            "signal": "soliplex.ingester.cli.signal:signal",
            "schedule": "soliplex.ingester.cli.schedule:add",
        },
    ),
    "key": Group(
        "Named API keys and what they may do.",
        {
            "create": "soliplex.ingester.cli.keys:create",
            "list": "soliplex.ingester.cli.keys:list_",
            "revoke": "soliplex.ingester.cli.keys:revoke",
        },
    ),
    "audit": "soliplex.ingester.cli.keys:audit",
    "webhooks": Group(
        "Messages to receivers outside.",
        {
            "list": "soliplex.ingester.cli.webhooks:list_",
            "show": "soliplex.ingester.cli.webhooks:show",
            "redeliver": "soliplex.ingester.cli.webhooks:redeliver",
        },
    ),
    "list-workflows": "soliplex.ingester.cli.definitions:list_workflows",
    "dump-workflow": "soliplex.ingester.cli.definitions:dump_workflow",
    "list-param-sets": "soliplex.ingester.cli.definitions:list_param_sets",
    "dump-param-set": "soliplex.ingester.cli.definitions:dump_param_set",
    "vacuum": "soliplex.ingester.cli.rag:vacuum",
    "vacuum-all": "soliplex.ingester.cli.rag:vacuum_all",
    "prune": "soliplex.ingester.cli.prune:prune",
    "verify-db": "soliplex.ingester.cli.rag:verify_db",
}


def main() -> None:
    """Run `si-cli`."""
    run_program("si-cli", "Soliplex Ingester: turn documents into a searchable knowledge base.", COMMANDS)
