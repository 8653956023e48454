"""The overview: what a newcomer is told, and how it moves while documents are worked on."""

from __future__ import annotations

import json

from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Visits
from tests.support.browser import Installation

LETTERS = 200
"""So many that they are still worked on when the page has been told of them."""


def figure(page: Page, name: str) -> Locator:
    found = page.get_by_role("region", name="Now").locator("div", has=page.get_by_role("heading", name=name))
    return found.locator(".value")


def test_a_newcomer_is_told_what_to_do_first(visit: Visits) -> None:
    visitor = visit()

    def nothing(route: Route) -> None:
        page = {"items": [], "total": 0, "page": 1, "rows_per_page": 8, "total_pages": 0}
        route.fulfill(status=200, content_type="application/json", body=json.dumps(page))

    visitor.page.route("**/api/v1/workflow/run-groups*", nothing)
    page = visitor.go("/")
    expect(page.get_by_role("heading", name="Nothing has been ingested yet")).to_be_visible()
    expect(page.get_by_text("si-cli ingest ./my-documents")).to_be_visible()
    assert visitor.violations() == []


def test_the_overview_moves_while_documents_are_worked_on(visit: Visits, installation: Installation) -> None:
    page = visit().go("/")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    workers = page.get_by_role("region", name="Now")
    expect(workers.get_by_role("heading", name="Workers")).to_be_visible()

    batch = installation.batch(
        "watched letters", {f"letter-{n}.md": f"# Letter {n}\n\nDear reader.".encode() for n in range(LETTERS)}
    )
    group = installation.start(batch)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="watched letters"))
    expect(row).to_be_visible()
    installation.finish(group)
    expect(row).to_be_hidden()
    # The page was not loaded anew: it was told.
    expect(page.get_by_role("heading", name="Steps that ended in the last hour")).to_be_visible()
    expect(figure(page, "Running")).to_have_text("0")

    page.get_by_role("link", name="All run groups").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Run groups")
    row = page.get_by_role("row").filter(has_text="watched letters")
    expect(row).to_contain_text("Completed")
    expect(row).to_contain_text(f"{LETTERS} / {LETTERS}")


def failed_by_cause(installation: Installation) -> set[int]:
    causes = installation.get("workflow/failures/by-cause?interval=day")["causes"]
    return {run_id for cause in causes for run_id in cause["run_ids"]}


def test_a_cause_of_failures_leads_to_its_runs(visit: Visits, installation: Installation) -> None:
    group = installation.ingest("cut off", {"cut-off.pdf": b"%PDF-1.4 cut"})
    (run,) = installation.get(f"workflow/run-groups/{group}/runs")
    while run["id"] not in failed_by_cause(installation):
        pass  # a busy server repeats for a while what it answered before
    page = visit().go("/")
    page.get_by_role("link", name="the PDF is cut off").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    expect(page.get_by_role("row").filter(has_text="cut-off.pdf")).to_contain_text("Failed")


def test_a_link_among_other_words_is_seen_without_its_colour(visit: Visits) -> None:
    visitor = visit()
    oldest = {"workflow_run_id": 1, "waits": 20.0}
    queue = {"step_type": "parse", "running": 0, "ready": 2, "is_exact": True, "oldest": oldest, "workers": 1}
    visitor.page.route("**/api/v1/workflow/queues*", lambda route: route.fulfill(json=[queue]))
    page = visitor.go("/")
    expect(page.get_by_role("region", name="Now").get_by_role("link", name="20 s")).to_be_visible()
    assert visitor.violations() == []
