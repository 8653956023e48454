from __future__ import annotations

from pathlib import Path

from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.server import create_app
from soliplex.ingester.server.access_page import access_page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http-access.md"
REMEDY = "write the page anew: python -m soliplex.ingester.server.access_page > docs/reference/http-access.md"


def test_the_page_tells_of_every_route_who_may_use_it() -> None:
    app = create_app(load_settings(), with_worker=False)
    assert PAGE.read_text(encoding="utf-8") == access_page(app), REMEDY
