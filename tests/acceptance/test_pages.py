"""What a browser is shown: it loads nothing from elsewhere, and all that it asks for is there."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import httpx
import pytest

from soliplex.ingester import __version__
from tests.support.http import running_client

ADDRESS = re.compile(r'(?:src|href)="([^"]+)"')
HTML = {"Accept": "text/html,application/xhtml+xml"}


def addresses(page: str) -> list[str]:
    return [each for each in ADDRESS.findall(page) if not each.startswith("data:")]


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
async def test_a_page_names_nothing_but_what_this_server_has(path: str) -> None:
    async with running_client() as client:
        page = await client.get(path, headers=HTML)
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "http" not in page.headers["content-security-policy"]
        found = addresses(page.text)
        assert found
        for each in found:
            assert "//" not in each
            answer = await client.get(urljoin(path, each))
            assert answer.status_code == 200, each
            assert answer.content, each


async def test_a_page_that_shows_the_api_has_what_it_needs_without_the_key() -> None:
    async with running_client(api_key_enabled=True, api_key="secret") as client:
        for path in ("/docs", "/redoc"):
            for each in addresses((await client.get(path, headers=HTML)).text):
                assert (await client.get(urljoin(path, each))).status_code == 200, each
        assert (await client.get("/openapi.json")).status_code == 401
        shown = await client.get("/openapi.json", headers={"Authorization": "Bearer secret"})
        assert shown.json()["info"]["title"] == "Soliplex Ingester"


async def test_the_start_page_leads_browsers_to_the_ui_wherever_a_proxy_shows_the_server() -> None:
    async with running_client(api_key_enabled=True, api_key="secret") as client:
        answer = await client.get("/", headers=HTML)
        assert (answer.status_code, answer.headers["location"], answer.headers["vary"]) == (307, "ui/", "Accept")
        assert (await client.get("/ui")).headers["location"] == "ui/"


async def test_the_start_page_is_json_for_programs() -> None:
    async with running_client() as client:
        told = (await client.get("/")).json()
        assert (told.pop("name"), told.pop("version")) == ("Soliplex Ingester", __version__)
        assert told.pop("vendor") == "Soliplex"
        assert told.pop("api") == "/api/v1"
        answers: list[httpx.Response] = [await client.get(place) for place in told.values()]
        assert {answer.status_code for answer in answers} <= {200, 503}
        assert set(told) == {"ui", "docs", "redoc", "openapi", "health", "ready", "metrics"}
