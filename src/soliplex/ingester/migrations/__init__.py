"""Alembic's migrations: one history for SQLite and PostgreSQL, shipped in the wheel."""
