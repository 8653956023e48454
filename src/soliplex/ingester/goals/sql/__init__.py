"""The statements about goals, and about what is learned from runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from soliplex.ingester.lib.models.statements import load_statements

SQL: Final = load_statements(Path(__file__).parent)
