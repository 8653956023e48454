"""`si-cli` in a process that a nursery forks: what takes seconds to import has been imported before.

Imports may be made before a fork, since they open nothing; the first use of LanceDB, a model or a database may not.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from soliplex.ingester.cli.program import spare_imports

MODULES: Final = (
    "soliplex.ingester.cli.serve",
    "soliplex.ingester.cli.worker",
    "soliplex.ingester.lib.wf.runner",
    "soliplex.ingester.lib.workflow",
    "soliplex.ingester.server",
    "uvicorn",
    "lancedb",
    "lancedb.index",
    "haiku.rag.client.client",
    "haiku.rag.config",
    "haiku.rag.store.exceptions",
    "haiku.rag.store.info",
    "haiku.rag.store.models.document_item",
    "haiku.rag.store.schema",
    "docling_core.types.doc",
    "wordllama",
)
PATIENCE: Final = timedelta(seconds=6)
"""After which what a dead process held may be taken, where no setting says so; minutes, in an installation."""


def prepare() -> None:
    """Import what takes long."""
    spare_imports()
    for name in MODULES:
        importlib.import_module(name)


def run(command: Sequence[str]) -> None:
    """Run the command, as its entry point does."""
    from soliplex.ingester.cli.main import main
    from soliplex.ingester.lib.operations import removals

    removals.STALE = PATIENCE
    sys.argv = ["si-cli", *command]
    main()
