"""The migrations make the schema the models describe, on both databases, up and down, and whoever starts them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.models import connecting, metadata, schema
from soliplex.ingester.lib.models.database import Database, engine_for
from tests.support.schema_dump import dump


async def schema_after(url: str, *revisions: str) -> list[str]:
    async with engine_for(connecting.parse_url(url)) as engine:
        for revision in revisions:
            async with engine.begin() as connection:
                await connection.run_sync(schema.migrate, revision)
        async with engine.connect() as connection:
            return await connection.run_sync(dump)


async def test_a_migrated_schema_equals_the_one_of_the_models(empty_database_url: str) -> None:
    async with engine_for(connecting.parse_url(empty_database_url)) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
            expected = await connection.run_sync(dump)
            await connection.run_sync(metadata.drop_all)
        await schema.upgrade(engine)
        async with engine.connect() as connection:
            assert await connection.run_sync(dump) == expected


async def test_going_down_one_and_up_again_changes_nothing(empty_database_url: str) -> None:
    assert await schema_after(empty_database_url, "head") == await schema_after(empty_database_url, "-1", "head")


async def test_going_down_to_nothing_leaves_nothing(empty_database_url: str) -> None:
    assert await schema_after(empty_database_url, "head", "base") == []


async def test_upgrading_twice_is_the_same_as_once(empty_database_url: str) -> None:
    async with engine_for(connecting.parse_url(empty_database_url)) as engine:
        assert (await schema.upgrade(engine)).condition is schema.Condition.EMPTY
        assert (await schema.upgrade(engine)).condition is schema.Condition.CURRENT


def test_migrations_are_numbered_without_gaps_and_know_their_numbers() -> None:
    assert list(schema.revisions()) == [f"{number + 1:04}" for number in range(len(schema.revisions()))]
    for path in (schema.MIGRATIONS / "versions").glob("[0-9]*.py"):
        assert f'revision = "{path.name[:4]}"' in path.read_text("utf-8")


async def test_five_processes_that_start_at_once_leave_one_good_schema(empty_database_url: str) -> None:
    command = [sys.executable, "-m", "soliplex.ingester.cli", "db-init"]
    environment = {"DOC_DB_URL": empty_database_url, "PATH": "/usr/bin:/bin"}
    started = [
        await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        for _ in range(5)
    ]
    outputs = [(await process.communicate())[0].decode() for process in started]
    assert [process.returncode for process in started] == [0] * 5, outputs
    async with engine_for(connecting.parse_url(empty_database_url)) as engine:
        assert (await schema.state_of(engine)).is_current


async def set_revision(url: str, revision: str | None) -> None:
    async with engine_for(connecting.parse_url(url)) as engine, engine.begin() as connection:
        await connection.execute(sa.text("DELETE FROM alembic_version"))
        if revision:
            await connection.execute(sa.text("INSERT INTO alembic_version VALUES (:it)"), {"it": revision})


async def test_a_database_newer_than_the_program_is_left_alone(database_url: str) -> None:
    await set_revision(database_url, "9999")
    with pytest.raises(ConfigurationError, match=r"DOC_DB_URL: .*9999.*upgrade soliplex-ingester"):
        await Database.initialize(database_url, migrate=True)


async def test_tables_without_a_record_of_migrations_are_left_alone(database_url: str) -> None:
    await set_revision(database_url, None)
    with pytest.raises(ConfigurationError, match=r"DOC_DB_URL: .*incomplete.*restore a backup"):
        await Database.initialize(database_url, migrate=True)


async def test_a_missing_table_is_named(database_url: str) -> None:
    async with engine_for(connecting.parse_url(database_url)) as engine, engine.begin() as connection:
        await connection.execute(sa.text("DROP TABLE resourcelock"))
    with pytest.raises(ConfigurationError, match="missing resourcelock"):
        await Database.initialize(database_url, migrate=True)


def test_the_migrations_of_the_checkout_are_those_of_the_package() -> None:
    ini = Path(__file__).parents[2] / "alembic.ini"
    assert "src/soliplex/ingester/migrations" in ini.read_text("utf-8")
    assert (schema.MIGRATIONS / "env.py").is_file()
