"""`si-cli bootstrap`."""

from __future__ import annotations

from pathlib import Path

from soliplex.ingester.cli.output import echo


def bootstrap() -> None:
    """Prepare this folder: settings, configuration, database.

    What is there already stays as it is; running it again does no harm.
    """
    import asyncio

    from soliplex.ingester.cli.database import db_init
    from soliplex.ingester.cli.settings import init_config, init_env
    from soliplex.ingester.lib.config import get_settings

    if Path(".env").exists():
        echo("kept .env")
    else:
        init_env()
    init_config()
    asyncio.run(db_init())
    echo(f"documents will be kept in {get_settings().file_store_dir}")
    echo("ready: `si-cli ingest FOLDER` ingests documents, `si-cli serve` opens the server")
