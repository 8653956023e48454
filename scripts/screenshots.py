"""Pictures of the web UI for the README and the documentation, taken of a real server at work on the samples.

python -m scripts.screenshots [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import NARROW, ROOT, Installation, chromium_path, running_browser, visiting
from tests.support.serving import serving

SAMPLES: Final = ROOT / "samples"
COPIES: Final = 24
"""Each sample that is text comes so often, each time a little different: enough to be seen at work."""
SIZE: Final = (1440, 900)
COLOURS: Final = 256
"""Pages have few colours: with a palette, a picture is a third as large. Red must not get lost among so much grey."""


def documents() -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in sorted(SAMPLES.rglob("*")):
        if not path.is_file() or path.name == "README.md":
            continue
        name = path.relative_to(SAMPLES).as_posix()
        found[name] = path.read_bytes()
        if path.suffix in {".md", ".txt", ".html", ".csv"}:
            for number in range(2, COPIES + 1):
                found[name.replace(".", f"-{number}.", 1)] = path.read_bytes() + f"\n\nCopy {number}.\n".encode()
    return found


def take(folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as data, serving(Path(data)) as server, running_browser() as browser:
        shown = Installation(server, None)
        shown.ingest("letters of the keeper", {"letter.md": b"# Letter\n\nThe lamp was lit at dusk."})
        shown.ingest(
            "scans from the archive",
            {"archive/ledger-1902.pdf": b"%PDF-1.7 cut off", "archive/ledger-1903.pdf": b"%PDF-1.7 cut off too"},
        )
        group = shown.start(shown.batch("crafts, spring collection", documents()))
        _until_some_have_ended(shown, group)
        yield _picture(browser, shown, "/?last=minute", folder / "ui-overview.png")
        yield _picture(browser, shown, "/?last=minute", folder / "ui-overview-dark.png", colours="dark")
        shown.finish(group)
        runs = shown.get(f"workflow/run-groups/{group}/runs")
        run = runs[len(runs) // 2]["id"]
        failed = shown.get("workflow/by-status", status="FAILED")[0]["id"]
        yield _picture(browser, shown, f"/runs/{failed}?tab=attempts", folder / "ui-failed-run.png")
        yield _picture(browser, shown, f"/runs/{run}", folder / "ui-run.png")
        yield _picture(browser, shown, f"/runs/{run}?tab=artifacts&view=chunks", folder / "ui-chunks.png")
        yield _picture(browser, shown, f"/runs/{run}?tab=timeline", folder / "ui-narrow.png", size=NARROW)
        yield from _of_documents(browser, shown, folder)


def _of_documents(browser: Browser, shown: Installation, folder: Path) -> Iterator[Path]:
    """What is found, and how a document differs from what it was."""
    name = "kitchen/sourdough.md"
    text = (SAMPLES / name).read_text(encoding="utf-8")
    edited = text.replace("wheat flour", "spelt flour").replace("25 minutes", "half an hour")
    shown.ingest("corrections", {name: edited.encode()})
    yield _picture(browser, shown, "/search?q=how+long+until+the+sourdough+starter+is+ready", folder / "ui-search.png")
    compare = f"/documents/at?source=browser&uri={quote(name, safe='')}&tab=compare"
    yield _picture(browser, shown, compare, folder / "ui-compare.png")


def _until_some_have_ended(shown: Installation, group: int) -> None:
    while True:
        found = shown.get(f"workflow/run-groups/{group}")
        if found["remaining_runs"] <= 0.7 * found["total_runs"]:
            return
        time.sleep(0.3)


def _picture(
    browser: Browser,
    shown: Installation,
    path: str,
    file: Path,
    *,
    size: tuple[int, int] = SIZE,
    colours: Literal["light", "dark"] = "light",
) -> Path:
    with visiting(browser, shown, size=size, colours=colours, scale=1.5) as visitor:
        page = visitor.go(path)
        _settle(page)
        page.evaluate(_WITHOUT_PATHS, _OF_THIS_MACHINE)
        page.screenshot(path=file)
    with Image.open(file) as image:
        image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1).save(file, optimize=True)
    return file


_OF_THIS_MACHINE: Final = [
    [f"{tempfile.gettempdir()}/tmp[a-z0-9_]+", "/srv"],
    [str(ROOT), "/srv/ingester"],
    [sys.base_prefix, "/usr"],
]
_WITHOUT_PATHS: Final = """(paths) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    for (const [path, shown] of paths) {
      texts.currentNode.data = texts.currentNode.data.replace(new RegExp(path, "g"), shown);
    }
  }
}"""


def _settle(page: Page) -> None:
    expect(page.locator("main [aria-busy=true]")).to_have_count(0)
    page.wait_for_timeout(600)  # transitions


def main() -> int:
    if chromium_path() is None:
        print("there is no chromium: `sh scripts/browser.sh` installs one", file=sys.stderr)
        return 1
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "assets"
    for made in take(folder):
        print(f"{made} ({made.stat().st_size // 1024} KiB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
