"""From files on a visitor's machine to an answer of a search, and back to an earlier version."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import Visits
from tests.support.browser import NARROW, Installation

HOSTILE = "<img src=x onerror=alert(1)>.md"
FILES = {
    "bees.md": b"# A year with one hive\n\n## Spring\n\nOn the first warm day the bees leave the hive.\n\n"
    b"## Autumn\n\nAfter the harvest the bees get sugar syrup in place of the honey.\n",
    HOSTILE: b"# <script>alert(2)</script>\n\n<img src=x onerror=alert(3)> Nettles make a good soup.\n",
    "boats/ferry.md": b"# The ferry\n\nThe ferry leaves at noon.\n",
    ".hidden.md": b"# Nobody means this\n",
    "node_modules/package/readme.md": b"# Nor this\n",
    "boats/empty.md": b"",
    "boats/film.mp4": b"no film",
}


def folder_of(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def test_a_folder_is_uploaded_watched_to_its_end_and_found(visit: Visits, tmp_path: Path) -> None:
    page = visit().go("/upload")
    page.get_by_test_id("choose-folder").set_input_files(folder_of(tmp_path / "garden", FILES))
    left = page.get_by_role("listitem").filter(has_text="hidden")
    expect(page.get_by_role("heading", name="4 files left out")).to_be_visible()
    expect(left).to_contain_text("garden/.hidden.md")
    for why, name in (("made by programs", "readme.md"), ("empty", "empty.md"), ("cannot read", "film.mp4")):
        expect(page.get_by_role("listitem").filter(has_text=why)).to_contain_text(name)
    expect(page.get_by_label("Name of the batch")).to_have_value("garden")
    page.get_by_label("Source").fill("garden")
    page.get_by_role("button", name="Upload 3 files").click()

    expect(page.get_by_text("3 documents processed", exact=True)).to_be_visible(timeout=120_000)
    rows = page.get_by_test_id("upload")
    expect(rows).to_have_count(3)
    expect(rows.filter(has_text="Completed")).to_have_count(3)
    expect(rows.filter(has_text=HOSTILE)).to_have_count(1)

    page.get_by_role("link", name="Search", exact=True).first.click()
    page.get_by_role("searchbox").fill("what do bees get after the harvest")
    page.get_by_role("button", name="Search").click()
    hit = page.get_by_test_id("hit").filter(has_text="sugar syrup").first
    expect(hit.locator("mark", has_text="harvest")).to_be_visible()
    hit.get_by_role("link", name="Open at this place").click()
    expect(page).to_have_url(re.compile("chunk="))
    expect(page.get_by_test_id("markdown").locator(".shown", has_text="sugar syrup")).to_be_in_viewport()


def test_what_a_document_says_is_never_taken_for_a_page(visit: Visits, installation: Installation) -> None:
    source = "hostile"
    installation.ingest("Hostile", {f"/{HOSTILE}": FILES[HOSTILE]}, source=source)
    visitor = visit(size=NARROW, colours="dark")
    page = visitor.go(f"/documents?source={source}")
    page.get_by_role("link", name=HOSTILE).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    expect(page.get_by_test_id("markdown")).to_contain_text("Nettles make a good soup")
    assert page.locator("main img, main script").count() == 0
    for tab in ("Versions", "Where it lives", "Runs"):
        page.get_by_role("link", name=tab).click()
        assert page.locator("main img, main script").count() == 0


def test_a_document_is_compared_and_rolled_back_and_the_run_is_followed(
    visit: Visits, installation: Installation
) -> None:
    for day in ("Monday", "Thursday"):
        text = f"# The office\n\n## Meetings\n\nThe team meets on {day}.\n\n## Keys\n\nThe key hangs by the door.\n"
        installation.ingest(f"Office {day}", {"/office.md": text.encode()}, source="office")
    page = visit().go("/documents?source=office&q=OFFICE")
    page.get_by_role("link", name="office.md").click()
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page.locator("del")).to_have_text("The team meets on Monday.")
    expect(page.locator("ins")).to_have_text("The team meets on Thursday.")

    page.get_by_role("link", name=re.compile("^Versions")).click()
    page.get_by_role("button", name="Roll back to version 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Leave it").click()
    expect(page.get_by_role("row", name="rolled back")).to_have_count(0)
    page.get_by_role("button", name="Roll back to version 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(page.get_by_text("rolled back to version 1", exact=True)).to_be_visible()
    followed = page.get_by_role("status").filter(has_text="brought into")
    expect(followed).to_contain_text("Version 3 was brought into", timeout=60_000)
    page.get_by_role("link", name="Text", exact=True).click()
    expect(page.get_by_test_id("markdown")).to_contain_text("The team meets on Monday.")


def test_of_a_long_text_the_beginning_is_shown_and_all_of_it_when_asked_for(
    visit: Visits, installation: Installation
) -> None:
    installation.ingest("Long", {"/long.md": b"# Long\n\nThe first words.\n"}, source="long")
    long = "# Long\n\nThe first words.\n\n" + "Words and more words of a long text.\n\n" * 12_000 + "The last words.\n"
    asked: list[str] = []
    visitor = visit()
    visitor.page.on("request", lambda request: asked.append(request.url))
    visitor.page.route("**/document/text?**", lambda route: route.fulfill(body=long, content_type="text/markdown"))
    page = visitor.go("/documents/at?source=long&uri=%2Flong.md")
    expect(page.get_by_test_id("markdown")).to_contain_text("The first words.")
    expect(page.get_by_text("This is the beginning of a long text.")).to_be_visible()
    assert not [each for each in asked if each.endswith("/artifacts/chunks")]

    page.get_by_role("button", name="Show all").first.click()
    page.get_by_role("button", name="Go through the chunks").click()
    expect(page.get_by_test_id("markdown").locator(".shown", has_text="The first words.")).to_be_visible()
    expect(page.get_by_text("Part 1 of 8")).to_be_visible()


def test_who_may_only_read_is_told_so_and_nothing_is_sent(
    visit: Visits, installation: Installation, tmp_path: Path
) -> None:
    page = visit(key=installation.key_with("read")).go("/upload")
    page.get_by_test_id("choose-files").set_input_files(folder_of(tmp_path, {"a.md": b"# A\n"}) / "a.md")
    button = page.get_by_role("button", name="Upload 1 file")
    expect(button).to_have_attribute("aria-disabled", "true")
    button.click(force=True)
    expect(page.get_by_text("it lacks the scope “ingest”")).to_be_visible()
    expect(page.get_by_test_id("upload")).to_have_count(1)
    page.goto(page.url.replace("/upload", "/keys"))
    expect(page.get_by_role("alert")).to_contain_text("it lacks the scope “admin”")
