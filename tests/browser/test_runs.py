"""A run that failed, read and tried again; documents with hostile names; who may only read."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Visits
from tests.support.browser import Installation

HOSTILE = '<img src=x onerror="window.harmed=1">.md'
HOSTILE_TEXT = b"""# <script>window.harmed = 2</script>

<img src=x onerror="window.harmed = 3"> and <b>bold</b>, [a link](javascript:window.harmed=4), ![a picture](https://example.org/x.png)

| <i>cell</i> | b |
|---|---|
| <svg onload="window.harmed = 5"> | 2 |
"""


@pytest.fixture(scope="module")
def failed_run(installation: Installation) -> int:
    group = installation.ingest("broken things", {"broken.pdf": b"%PDF-1.7 broken"})
    (run,) = installation.get(f"workflow/run-groups/{group}/runs")
    return run["id"]


@pytest.fixture(scope="module")
def hostile_run(installation: Installation) -> int:
    group = installation.ingest("hostile things", {HOSTILE: HOSTILE_TEXT})
    (run,) = installation.get(f"workflow/run-groups/{group}/runs")
    return run["id"]


def test_a_failed_run_is_found_read_and_tried_again(visit: Visits, installation: Installation, failed_run: int) -> None:
    page = visit().go("/runs")
    page.get_by_role("button", name="Failed").click()
    expect(page).to_have_url(f"{installation.url}/ui/#/runs?status=FAILED")
    page.get_by_role("rowheader").get_by_role("link", name=f"#{failed_run}", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("broken.pdf")
    expect(page.get_by_role("alert")).to_contain_text("validate failed: the PDF is cut off")

    page.get_by_role("navigation", name="Parts of the run").get_by_role("link", name="Failed attempts").click()
    attempts = page.get_by_role("heading", name="validate: attempt")
    expect(attempts).to_have_count(1)
    expect(page.get_by_role("region", name="Traceback of validate")).to_contain_text(
        "Traceback (most recent call last)"
    )

    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("status", name="Messages")).to_contain_text("What failed will be tried again.")
    expect(attempts).to_have_count(2)
    expect(page.get_by_role("alert")).to_contain_text("validate failed")
    acts = [entry["action"] for entry in installation.get("audit")]
    assert any("retry" in act for act in acts)


def test_a_run_shows_its_graph_its_times_and_what_it_made(visit: Visits, hostile_run: int) -> None:
    page = visit().go(f"/runs/{hostile_run}")
    graph = page.get_by_role("region", name="Graph of the run")
    expect(graph.get_by_role("listitem")).to_have_count(5)
    graph.get_by_role("link", name="parse").click()
    expect(page.get_by_role("heading", name="Step parse")).to_be_visible()
    expect(page.get_by_role("region", name="Output of parse")).to_contain_text("characters")

    parts = page.get_by_role("navigation", name="Parts of the run")
    parts.get_by_role("link", name="Timeline").click()
    expect(page.get_by_role("listitem").filter(has_text="embed")).to_contain_text("Completed")
    parts.get_by_role("link", name="History").click()
    expect(page.get_by_role("row").filter(has_text="step start").first).to_be_visible()
    parts.get_by_role("link", name="Artifacts").click()
    page.get_by_role("button", name="Chunks on the text").click()
    expect(page.get_by_role("region", name="Chunk 1")).to_be_visible()
    page.get_by_role("button", name="Structure").click()
    expect(page.get_by_role("region", name="Structure of the document")).to_contain_text("DoclingDocument")


@pytest.mark.parametrize(
    "path", ["/runs", "/runs/{run}", "/runs/{run}?tab=artifacts", "/runs/{run}?tab=artifacts&view=chunks"]
)
def test_names_and_texts_of_documents_stay_text(visit: Visits, hostile_run: int, path: str) -> None:
    page = visit().go(path.format(run=hostile_run))
    expect(page.get_by_text("onerror").first).to_be_attached()
    assert page.evaluate("window.harmed") is None
    assert page.locator("main img, main script, main b img, main [onerror], main a[href^='javascript']").count() == 0


def test_who_may_only_read_sees_buttons_that_say_why_they_do_nothing(
    visit: Visits, installation: Installation, failed_run: int
) -> None:
    page = visit(key=installation.key_with("read")).go(f"/runs/{failed_run}")
    before = len(installation.get(f"workflow/runs/{failed_run}/attempts"))
    retry = page.get_by_role("button", name="Retry")
    expect(retry).to_have_attribute("aria-disabled", "true")
    retry.click(force=True)
    expect(page.get_by_role("status", name="Messages")).to_contain_text(
        "Your key “read-only” may not do this: it lacks the scope “operate”"
    )
    assert len(installation.get(f"workflow/runs/{failed_run}/attempts")) == before


def test_what_the_server_refuses_is_told_politely(visit: Visits, installation: Installation, failed_run: int) -> None:
    visitor = visit(key=installation.key_with("read"))
    visitor.expected.add("403")

    def as_if_it_might(route: Route) -> None:
        told = {"needs_key": True, "name": "read-only", "scopes": ["read", "operate"], "expires_at": None}
        route.fulfill(status=200, content_type="application/json", body=json.dumps(told))

    visitor.page.route("**/api/v1/session", as_if_it_might)
    page = visitor.go(f"/runs/{failed_run}")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("status", name="Messages")).to_contain_text("Not allowed for the key “read-only”")


def test_a_group_is_deleted_only_by_who_types_its_number_and_whoever_looks_at_it_sees_that(
    visit: Visits, installation: Installation
) -> None:
    group = installation.ingest("to be deleted", {"gone.pdf": b"%PDF-1.4 gone"})
    (run,) = installation.get(f"workflow/run-groups/{group}/runs")
    visitor = visit()
    visitor.expected.add("404")  # the deletion may overtake what the page asks
    onlooker = visitor.go(f"/runs/{run['id']}")
    expect(onlooker.get_by_role("region", name="Graph of the run")).to_be_visible()
    page = visit().go(f"/groups/{group}")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    sure = dialog.get_by_role("button", name="Delete the group")
    expect(sure).to_be_disabled()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()

    page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("textbox").fill(str(group))
    sure.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Run groups")
    assert group not in [each["id"] for each in installation.get("workflow/run-groups")]
    expect(onlooker.get_by_role("status").filter(has_text=f"Run {run['id']} was deleted")).to_be_visible()
    expect(onlooker.get_by_role("button", name="Delete")).to_have_count(0)


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.tagName + ' ' + document.activeElement.textContent.trim()")


def test_the_keyboard_reaches_the_content_at_once(visit: Visits, failed_run: int) -> None:
    page = visit().go(f"/runs/{failed_run}")
    page.keyboard.press("Tab")
    assert focused(page) == "A Skip to content"
    page.keyboard.press("Enter")
    assert focused(page).startswith("MAIN")
    expect(page).to_have_url(f"{page.url.split('#')[0]}#/runs/{failed_run}")
    page.keyboard.press("Tab")
    assert focused(page) == "A Runs"


def test_a_step_that_waits_is_sent_its_signal_and_a_map_step_shows_its_tasks(
    visit: Visits, installation: Installation
) -> None:
    functions = "tests.support.flow_functions"
    steps = [
        {"name": "words", "type": "task", "command": f"{functions}.words"},
        {"name": "length", "type": "map", "command": f"{functions}.length", "dependencies": ["words"]},
        {"name": "pages", "type": "task", "command": f"{functions}.pages"},
        {"name": "approved", "type": "task", "command": f"{functions}.approved", "dependencies": ["pages"]},
    ]
    installation.post("flows/", json={"definition": {"title": "Approval", "steps": steps}})
    run = installation.post("flows/approval/runs", json={"input": {"text": "to be or not"}})["run_id"]

    page = visit().go(f"/runs/{run}")
    graph = page.get_by_role("region", name="Graph of the run")
    expect(graph.get_by_role("link", name="length")).to_contain_text("4 of 4 tasks")
    graph.get_by_role("link", name="length").click()
    expect(page.get_by_role("table", name="Tasks of length").get_by_role("row")).to_have_count(5)

    graph.get_by_role("link", name="approved").click()
    page.get_by_label("Payload as JSON").fill('{"by": ')
    page.get_by_role("button", name="Send the signal").click()
    expect(page.get_by_role("status", name="Messages")).to_contain_text("The payload is not JSON")
    page.get_by_label("Payload as JSON").fill('"Ada"')
    page.get_by_role("button", name="Send the signal").click()
    expect(graph.get_by_role("link", name="approved")).to_contain_text("Completed")
    expect(page.get_by_role("region", name="Output of approved")).to_contain_text('"by": "Ada"')


def test_a_run_shows_what_it_made_and_not_what_others_made_of_the_same_content(
    visit: Visits, hostile_run: int, installation: Installation
) -> None:
    doc = installation.get(f"workflow/runs/{hostile_run}")["doc_id"]
    path = f"/api/v1/document/{doc}/artifacts"
    mine = installation.get(path.removeprefix("/api/v1/"))
    newer = [{"artifact_type": "parsed_markdown", "step_config_id": 999, "step_type": "parse"}]
    visitor = visit()
    visitor.page.route(f"**{path}", lambda route: route.fulfill(json=[*newer, *mine]))
    page = visitor.go(f"/runs/{hostile_run}?tab=artifacts")
    expect(page.get_by_role("link", name="parsed markdown")).to_have_count(1)
    expect(page.get_by_text("window.harmed = 3").first).to_be_visible()


@pytest.mark.parametrize("path", ["runs", "groups", "batches"])
def test_a_list_is_turned_round_and_its_address_tells_it(
    visit: Visits, installation: Installation, failed_run: int, hostile_run: int, path: str
) -> None:
    page = visit().go(f"/{path}")
    header = page.get_by_role("columnheader").first
    expect(header).to_have_attribute("aria-sort", "descending")
    header.get_by_role("button").press("Enter")
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect(page.get_by_role("rowheader").first).to_have_text("#1")
    assert page.url == f"{installation.url}/ui/#/{path}?order=oldest"
    page.reload()
    expect(page.get_by_role("rowheader").first).to_have_text("#1")
