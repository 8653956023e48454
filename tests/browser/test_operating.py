"""Jobs that are stopped, messages that are sent again, keys that are made and taken back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visits
from tests.support.browser import Installation

ARTICLES = ("# Harbours\n\n" + "\n\n".join(f"## {name}\n\n{name} is an old harbour. " * 9 for name in "AB")).encode()
STALLS = b"# STALL EVERYWHERE\n\nThis document keeps its reader busy for ever.\n"


class Hooks(ThreadingHTTPServer):
    """A receiver of webhooks: at first it wants none."""

    answers = 410
    taken = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class _Hook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Hooks)
        self.rfile.read(int(self.headers["content-length"]))
        self.server.taken += self.server.answers == 200
        self.send_response(self.server.answers)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as it is called
        pass


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    with Hooks(("127.0.0.1", 0), _Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_job_is_sent_shown_beside_its_source_and_another_is_cancelled(visit: Visits) -> None:
    page = visit().go("/segmenter")
    page.get_by_test_id("choose-files").set_input_files(
        [{"name": "harbours.md", "mimeType": "text/markdown", "buffer": ARTICLES}]
    )
    page.get_by_label("Articles", exact=True).select_option("small")
    page.get_by_role("button", name="Cut into articles").click()
    row = page.get_by_test_id("job").filter(has_text="harbours.md").first
    expect(row).to_contain_text("Completed", timeout=60_000)
    row.get_by_role("link").first.click()
    page.get_by_test_id("article").last.click()
    expect(page.get_by_test_id("markdown").locator(".shown").first).to_be_in_viewport()

    page.get_by_role("link", name="Segmenter").first.click()
    page.get_by_test_id("choose-files").set_input_files(
        [{"name": "stalls.md", "mimeType": "text/markdown", "buffer": STALLS}]
    )
    page.get_by_role("button", name="Cut into articles").click()
    row = page.get_by_test_id("job").filter(has_text="stalls.md").first
    row.get_by_role("button", name="Cancel the job of stalls.md").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(row).to_contain_text("Cancelled")


def test_a_dead_letter_is_seen_and_redelivered(visit: Visits, installation: Installation, hooks: Hooks) -> None:
    with installation.client() as client:
        form = {"callbackurl": hooks.url, "article_size": "small"}
        client.post("/jobs", files={"uploadfile": ("hooked.md", ARTICLES)}, data=form).raise_for_status()
    page = visit().go("/deliveries?status=DEAD")
    letter = page.get_by_test_id("webhook").filter(has_text=hooks.url).first
    expect(letter).to_contain_text("gone for good", timeout=60_000)
    hooks.answers = 200
    letter.get_by_role("link").first.click()
    expect(page.get_by_text("Dead letter", exact=True)).to_be_visible()
    page.get_by_role("button", name="Redeliver", exact=True).click()
    expect(page.get_by_text("Delivered", exact=True)).to_be_visible(timeout=60_000)
    assert hooks.taken >= 1


def test_a_key_is_made_shown_once_and_revoked(visit: Visits, installation: Installation) -> None:
    page = visit().go("/keys")
    page.get_by_label("Name").fill("night-shift")
    page.get_by_label("operate").check()
    page.get_by_role("button", name="Create key").click()
    key = page.get_by_test_id("new-key").inner_text()
    assert key.startswith("si_")
    other = visit(key=key)
    expect(other.go("/runs").get_by_text("night-shift")).to_be_visible()

    page.reload()
    expect(page.get_by_role("row", name="night-shift")).to_be_visible()
    expect(page.get_by_test_id("new-key")).to_have_count(0)
    page.get_by_role("button", name="Revoke night-shift").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("row", name="night-shift")).to_have_count(0)
    page.get_by_label("Show revoked").check()
    expect(page.get_by_role("row", name="night-shift")).to_contain_text("Revoked")

    other.expected.add("401")
    other.page.reload()
    expect(other.page.get_by_label("API key")).to_be_visible()
    log = visit().go("/audit?action=DELETE+%2Fkeys%2F%7Bname%7D")
    expect(log.get_by_text("night-shift").locator("visible=true").first).to_be_visible()


def test_a_parameter_set_is_checked_line_by_line_and_saved(visit: Visits) -> None:
    page = visit().go("/parameters/default?as=new")
    editor = page.get_by_role("textbox", name="The parameter set as YAML")
    save = page.get_by_role("button", name="Save")
    editor.fill("id: default\nconfig:\n  chunk:\n    chunk_size: tall\n  store: {data_dir: ../x}\n")
    problems = page.get_by_test_id("problem")
    expect(problems).to_have_count(3)
    expect(problems.filter(has_text="config.chunk.chunk_size")).to_contain_text("line 4")
    expect(save).to_be_disabled()
    editor.fill("id: browser_made\nname: Made here\nconfig:\n  chunk: {chunk_size: 99}\n")
    expect(page.get_by_text("In order")).to_be_visible()
    save.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Made here")
    expect(editor).not_to_be_editable()


def test_a_schedule_is_added_paused_and_removed(visit: Visits) -> None:
    visitor = visit()
    visitor.expected.add("400")  # of what is refused
    page = visitor.go("/schedules")
    page.get_by_label("Name").fill("dusk")
    page.get_by_label("Workflow").select_option("test_wf")
    page.get_by_label("When").fill("99 * * * *")
    add = page.get_by_role("button", name="Add schedule")
    add.click()
    expect(page.get_by_role("status").filter(has_text="cron")).to_be_visible()
    page.get_by_role("button", name="every night at 3").click()
    add.click()
    row = page.get_by_role("row", name="dusk")
    expect(row).to_contain_text("in ")
    row.get_by_role("button", name="Pause dusk").click()
    expect(row).to_contain_text("Paused")
    row.get_by_role("button", name="Remove dusk").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)


def test_a_goal_is_planned_as_a_graph_and_executed(visit: Visits) -> None:
    visitor = visit()
    visitor.expected.add("400")  # of what is refused
    page = visitor.go("/goals")
    page.get_by_label("What is to be done").fill("make me a sandwich")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_role("alert")).to_contain_text("is not understood")
    page.get_by_label("What is to be done").fill("search for ferries, then search for bees")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_role("region", name="The tasks of the goal").get_by_role("listitem")).to_have_count(2)
    page.get_by_role("button", name="Execute it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("search for ferries, then search for bees")
    expect(page.get_by_role("region", name="The tasks of the goal")).to_contain_text("search for bees", timeout=60_000)


def test_a_lock_that_is_taken_while_a_database_is_looked_at_is_shown(visit: Visits, installation: Installation) -> None:
    installation.ingest("so that there is one", {"one.md": b"# One"})
    visitor = visit()
    lock = {
        "resource_key": "rag:/data/lancedb/lancedb",
        "holder_id": "somebody",
        "holder_kind": "worker",
        "acquired_at": "2030-01-01T00:00:00Z",
        "expires_at": "2030-01-01T00:01:00Z",
    }
    held: list[dict[str, str]] = []
    visitor.page.route("**/api/v1/locks*", lambda route: route.fulfill(json=held))
    page = visitor.go("/databases/lancedb")
    expect(page.get_by_text("not locked")).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    held.append(lock)
    installation.ingest("while it is looked at", {"looked-at.md": b"# Looked at\n\nBy somebody."})
    expect(page.get_by_text("held by a worker")).to_be_visible()
