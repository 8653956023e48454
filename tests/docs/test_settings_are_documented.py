from __future__ import annotations

import re
from pathlib import Path

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.config.fields import leaves
from soliplex.ingester.lib.config.reference import reference_page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
REMEDY = "write the page anew: python -m soliplex.ingester.lib.config > docs/reference/settings.md"


def documented() -> dict[str, str]:
    rows = re.findall(r"^\| `([A-Z0-9_]+)` \| (?:`([^`]*)`|none) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(rows)


def test_every_setting_is_documented_and_every_documented_setting_exists() -> None:
    assert documented().keys() == {leaf.name for leaf in leaves(Settings)}, REMEDY


def test_every_documented_default_is_the_default() -> None:
    assert documented() == {leaf.name: leaf.default for leaf in leaves(Settings)}, REMEDY


def test_the_page_is_what_the_fields_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_page(), REMEDY
