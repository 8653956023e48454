"""From page to page: by the browser's Back, by the keyboard, and without losing one's place."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visits
from tests.support.browser import Installation

MANY = 6


@pytest.fixture(scope="module")
def runs(installation: Installation) -> list[int]:
    letters = {f"letters/{number}.md": f"# Letter {number}\n\nThe lamp was lit.".encode() for number in range(MANY)}
    group = installation.ingest("letters", letters, source="moving about")
    return [run["id"] for run in installation.get(f"workflow/run-groups/{group}/runs")]


@pytest.mark.usefixtures("runs")
def test_who_types_into_a_filter_stays_in_the_field(visit: Visits) -> None:
    page = visit().go("/documents")
    field = page.get_by_role("searchbox", name="Part of a name or path")
    field.press_sequentially("letters/", delay=60)
    expect(page).to_have_url(f"{page.url.partition('?')[0]}?q=letters%2F")
    expect(field).to_be_focused()
    expect(field).to_have_value("letters/")


def test_back_leads_to_the_filter_before_and_to_the_place_that_was_left(visit: Visits, runs: list[int]) -> None:
    page = visit(size=(1000, 300)).go("/runs")
    page.get_by_role("button", name="Completed").click()
    expect(page.get_by_role("button", name="Completed")).to_have_attribute("aria-pressed", "true")
    link = page.get_by_role("rowheader").get_by_role("link", name=f"#{min(runs)}", exact=True)
    link.scroll_into_view_if_needed()
    assert page.evaluate("scrollY") > 0
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("0.md")
    assert page.evaluate("scrollY") == 0
    page.go_back()
    expect(page.get_by_role("button", name="Completed")).to_have_attribute("aria-pressed", "true")
    expect(link).to_be_in_viewport()
    page.reload()
    expect(link).to_be_in_viewport()
    page.go_back()
    expect(page.get_by_role("button", name="All")).to_have_attribute("aria-pressed", "true")


def test_the_way_to_a_page_a_run_or_a_document_is_typed(visit: Visits, runs: list[int]) -> None:
    visitor = visit()
    page = visitor.go("/")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Where to?")
    field.fill("audit")
    assert visitor.violations() == []
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Audit log")

    page.get_by_role("button", name="Go to").click()
    field.fill(str(runs[0]))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(".md")

    page.keyboard.press("Control+k")
    field.fill("letters/3")
    expect(page.get_by_role("option", name="letters/3.md")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("3.md")

    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()
