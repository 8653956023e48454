"""Who is let in, and what a key may do that may only read."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Visits
from tests.support.browser import Installation


def test_a_visitor_logs_in_with_a_key_stays_at_the_address_and_logs_out(
    visit: Visits, installation: Installation
) -> None:
    visitor = visit(key=None)
    visitor.expected.add("401")
    page = visitor.go("/runs?status=FAILED")
    page.get_by_label("API key").fill("no such key")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not known")

    page.get_by_label("API key").fill(installation.key_with("read"))
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    expect(page).to_have_url(f"{installation.url}/ui/#/runs?status=FAILED")
    expect(page.get_by_text("read-only")).to_be_visible()

    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("API key")).to_be_visible()


def test_a_browser_is_led_from_the_root_to_the_ui(visit: Visits, installation: Installation) -> None:
    page = visit().page
    page.goto(f"{installation.url}/")
    expect(page).to_have_url(f"{installation.url}/ui/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
