"""The statements about jobs and their articles, in `.sql` files by area."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from soliplex.ingester.lib.models.statements import load_statements

SQL: Final = load_statements(Path(__file__).parent)
