from __future__ import annotations

import re
from pathlib import Path

from soliplex.ingester.lib.fetching import SCHEMES

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "storage.md"


def test_every_scheme_is_documented_and_every_documented_scheme_exists() -> None:
    rows = re.findall(r"^\| (`[a-z0-9+.-]+://.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    documented = {scheme for row in rows for scheme in re.findall(r"`([a-z0-9+.-]+)://", row)}
    assert documented == SCHEMES.keys()
