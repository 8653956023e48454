"""What holds for every page: it can be used by everybody, on every screen, in every light, below every path."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.conftest import Visits
from tests.support.browser import AXE, NARROW, ROOT, WIDE, Installation, visiting
from tests.support.serving import PATIENCE, serving

# The table of pages is read from the sources, so that no page is forgotten here.
PATHS = re.findall(r'^  \{ path: "([^"]+)"', (ROOT / "ui/src/pages.ts").read_text(encoding="utf-8"), re.MULTILINE)
A_DOCUMENT = "/documents/at?source=looks&uri=%2Flamps.md"
MORE = [
    *(f"{A_DOCUMENT}&tab={tab}" for tab in ("versions", "compare", "places", "runs")),
    *(
        "/search?q=when+is+the+lamp+filled",
        "/definitions/batch?tab=file",
        "/definitions/batch?tab=better",
        "/parameters/default?as=new",
    ),
]
LAMPS = b"# Lamps\n\n## Oil\n\nThe lamp is filled at dusk.\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n```\ncode\n```\n"
LONG = LAMPS + b"\nThe wick is cut at dawn, and the glass is wiped.\n" * 80
OF_A_RUN = [f"/runs/:run?tab={tab}" for tab in ("timeline", "attempts", "history", "artifacts", "data")]


@pytest.fixture(scope="module")
def numbers(installation: Installation) -> dict[str, str]:
    """A batch, a group and a run with something to see, to stand for the names in paths."""
    documents = {
        "good.md": b"# A title\n\nSome *text*.\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |",
        "bad.pdf": b"%PDF-",
    }
    group = installation.ingest("for every page", documents)
    runs = installation.get(f"workflow/run-groups/{group}/runs")
    batch = installation.get(f"workflow/run-groups/{group}")["batch_id"]
    completed = next(run["id"] for run in runs if run["status"] == "COMPLETED")
    installation.ingest("Lamps", {"/lamps.md": LAMPS}, source="looks")
    installation.ingest("Lamps again", {"/lamps.md": LAMPS + b"\nThe wick is cut at dawn.\n"}, source="looks")
    installation.post("flows/schedules", json={"name": "looks", "slug": "test_wf", "cron": "0 6 * * *"})
    goal = installation.post("goals/", json={"goal": "search for lamps"})["run_id"]
    return {
        "/documents/at": A_DOCUMENT,
        "/databases/:name": "/databases/lancedb",
        "/segmenter/jobs/:id": f"/segmenter/jobs/{_job(installation)}",
        "/deliveries/:id": f"/deliveries/{installation.get('webhooks')[0]['id']}",
        "/goals/:id": f"/goals/{goal}",
        "/definitions/:id": "/definitions/batch",
        "/parameters/:id": "/parameters/default",
        "/batches/:id": f"/batches/{batch}",
        "/groups/:id": f"/groups/{group}",
        "/runs/:id": f"/runs/{completed}",
        "run": str(completed),
    }


def _job(installation: Installation) -> str:
    """A segmentation job that has ended, and has told a receiver that is not there."""
    form = {"callbackurl": "http://127.0.0.1:9/"}
    with installation.client() as client:
        answer = client.post("/jobs", files={"uploadfile": ("lamps.md", LONG)}, data=form).raise_for_status()
        job: str = answer.json()["jobid"]
        run_group = {"workflow_definition_id": "segment"}
        with client.stream("GET", "/api/v1/events", params=run_group, timeout=PATIENCE) as lines:
            for line in lines.iter_lines():
                if line.startswith("data:") and installation.get(f"segmenter/jobs/{job}")["status"] == "COMPLETED":
                    return job
    raise AssertionError("the feed has ended before the job")


@pytest.mark.parametrize(("size", "colours"), [(WIDE, "light"), (NARROW, "dark")], ids=["wide light", "narrow dark"])
def test_every_page_can_be_used_by_everybody(
    visit: Visits, numbers: dict[str, str], size: tuple[int, int], colours: Literal["light", "dark"]
) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: `sh scripts/ui.sh` says why")
    visitor = visit(size=size, colours=colours)
    found: dict[str, object] = {}
    for path in ("/nowhere", *PATHS, *OF_A_RUN, *MORE):
        page = visitor.go(numbers.get(path, path).replace(":run", numbers["run"]))
        expect(page.locator("main [aria-busy=true]")).to_have_count(0)
        fits = page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        found[path] = (visitor.violations(), fits, page.title() != "Soliplex Ingester")
    assert found == dict.fromkeys(found, ([], True, True))


def test_the_choice_of_colours_is_remembered(visit: Visits) -> None:
    page = visit(colours="light").go("/runs")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("radio", name="Dark").check(force=True)
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    expect(page.get_by_role("radio", name="Dark")).to_be_checked()
    assert page.evaluate(ground) == dark


def test_the_menu_opens_on_a_narrow_screen_and_closes_when_it_has_led_somewhere(visit: Visits) -> None:
    page = visit(size=NARROW).go("/")
    link = page.get_by_role("navigation", name="Pages", exact=True).get_by_role("link", name="Run groups")
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Run groups")
    expect(link).to_be_hidden()


def test_it_works_below_the_path_at_which_a_proxy_shows_the_server(chromium: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, "--no-worker", "--root-path", "/deep/below") as server:
        asked: list[str] = []

        def as_a_proxy(route: Route) -> None:
            asked.append(route.request.url)
            route.continue_(url=route.request.url.replace("/deep/below", ""))

        with visiting(chromium, Installation(server, None)) as visitor:
            page = visitor.page
            page.route("**/deep/below/**", as_a_proxy)
            page.goto(f"{server.url}/deep/below/ui/")
            expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
            expect(page.get_by_role("heading", name="Nothing has been ingested yet")).to_be_visible()
            expect(page.get_by_text("Live", exact=True)).to_be_visible()
            page.get_by_role("link", name="Runs", exact=True).click()
            expect(page.get_by_text("No run yet")).to_be_visible()
            assert page.url == f"{server.url}/deep/below/ui/#/runs"
            assert visitor.surprises() == []
        assert any("/deep/below/api/v1/events" in url for url in asked)
