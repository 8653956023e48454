from __future__ import annotations

from pathlib import Path

from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.server import create_app
from soliplex.ingester.server.access_page import access_page
from soliplex.ingester.server.api_page import api_page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http-access.md"
REFERENCE = PAGE.parent
REMEDY = "write the page anew: python -m soliplex.ingester.server.access_page > docs/reference/http-access.md"


def test_the_page_tells_of_every_route_who_may_use_it() -> None:
    app = create_app(load_settings(), with_worker=False)
    assert PAGE.read_text(encoding="utf-8") == access_page(app), REMEDY


def test_the_reference_of_the_api_is_that_of_the_application() -> None:
    app = create_app(load_settings(), with_worker=False)
    remedy = "write the page anew: python -m soliplex.ingester.server.api_page > docs/reference/http-api.md"
    assert (REFERENCE / "http-api.md").read_text(encoding="utf-8") == api_page(app), remedy


def test_every_page_stands_in_the_index_of_its_folder() -> None:
    missing = [
        f"{page.parent.name}/{page.name}"
        for page in REFERENCE.parent.rglob("*/*.md")
        if page.name != "index.md" and f"]({page.name})" not in (page.parent / "index.md").read_text(encoding="utf-8")
    ]
    assert not missing
