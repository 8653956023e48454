"""The engine's statements, in `.sql` files by area, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from soliplex.ingester.lib.models.statements import load_statements
from soliplex.ingester.lib.wf.sql.columns import fragments

SQL: Final = load_statements(Path(__file__).parent, made=fragments())
