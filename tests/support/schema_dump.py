"""The schema of a database as text, for comparing two of them: tables, columns, constraints, indexes and triggers."""

from __future__ import annotations

from sqlalchemy import Connection, text

_POSTGRES = """
SELECT 'column ' || c.table_name || '.' || c.column_name || ' ' || c.data_type || ' ' || c.is_nullable
       || ' ' || coalesce(c.column_default, '')
  FROM information_schema.columns c WHERE c.table_schema = 'public' AND c.table_name <> 'alembic_version'
UNION ALL
SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'alembic_version'
UNION ALL
SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'alembic_version'
UNION ALL
SELECT 'trigger ' || pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL
SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL
SELECT 'view ' || viewname || ' ' || definition FROM pg_views WHERE schemaname = 'public'
UNION ALL
SELECT 'options ' || relname || ' ' || coalesce(reloptions::text, '') FROM pg_class
 WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'alembic_version'
"""
_SQLITE = """
SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_master
 WHERE name NOT LIKE 'sqlite_%' AND tbl_name <> 'alembic_version'
"""


def dump(connection: Connection) -> list[str]:
    query = _POSTGRES if connection.dialect.name == "postgresql" else _SQLITE
    rows = connection.execute(text(query.replace(":", "\\:"))).scalars().all()
    return sorted(_in_order(" ".join(row.split())) for row in rows)


def _in_order(row: str) -> str:
    """A table's columns and constraints in alphabetical order: where each stands says nothing."""
    if not row.startswith("table "):
        return row
    head, _, body = row.partition(" (")
    return " | ".join([head, *sorted(_parts(body.removesuffix(")")))])


def _parts(body: str) -> list[str]:
    parts, depth = [""], 0
    for character in body:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
