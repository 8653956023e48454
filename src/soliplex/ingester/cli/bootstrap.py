"""`si-cli bootstrap`."""

from __future__ import annotations

from pathlib import Path

import typer


def bootstrap() -> None:
    """Prepare this folder: settings, configuration, database.

    What is there already stays as it is; running it again does no harm.
    """
    import asyncio

    from soliplex.ingester.cli.database import db_init
    from soliplex.ingester.cli.settings import init_config, init_env
    from soliplex.ingester.lib.config import get_settings

    if Path(".env").exists():
        typer.echo("kept .env")
    else:
        init_env()
    init_config()
    asyncio.run(db_init())
    typer.echo(f"documents will be kept in {get_settings().file_store_dir}")
    typer.echo("ready: `si-cli ingest FOLDER` ingests documents, `si-cli serve` opens the server")
