"""Chromium, driven by playwright, and what no page may do: complain in its console, or break its policy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import httpx
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.support.serving import PATIENCE, Server

ROOT: Final = Path(__file__).resolve().parents[2]
AXE: Final = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
WIDE: Final = (1440, 900)
NARROW: Final = (390, 844)
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_FOR_MACHINES: Final = 20_000
"""Milliseconds that an expectation may take to come true: the machine may be busy."""


def chromium_path() -> str | None:
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@contextmanager
def running_browser() -> Generator[Browser]:
    expect.set_options(timeout=_FOR_MACHINES)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(_OPTIONS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Installation:
    """A server, with its worker, and clients of it."""

    server: Server
    admin_key: str | None
    """None: the server asks nobody for a key."""
    keys: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def url(self) -> str:
        return self.server.url

    def client(self) -> httpx.Client:
        shown = {"Authorization": f"Bearer {self.admin_key}"} if self.admin_key else {}
        return self.server.client(headers=shown)

    def get(self, path: str, **query: Any) -> Any:
        with self.client() as client:
            return client.get(f"/api/v1/{path}", params=query).raise_for_status().json()

    def post(self, path: str, **options: Any) -> Any:
        with self.client() as client:
            return client.post(f"/api/v1/{path}", **options).raise_for_status().json()

    def key_with(self, *scopes: str) -> str:
        """A named key with these scopes; made when it is first asked for."""
        name = f"{'-'.join(scopes)}-only"
        if name not in self.keys:
            self.keys[name] = self.post("keys", json={"name": name, "scopes": list(scopes)})["key"]
        return self.keys[name]

    def batch(self, name: str, documents: dict[str, bytes], *, source: str = "browser") -> int:
        """A batch of these documents, by their URIs; no workflow is started."""
        batch_id: int = self.post("batch/", data={"name": name, "source": source})["batch_id"]
        for uri, content in documents.items():
            form = {"source_uri": uri, "source": source, "batch_id": str(batch_id)}
            self.post("document/ingest-document", data=form, files={"file": (uri.rpartition("/")[2], content)})
        return batch_id

    def start(self, batch_id: int, **form: str) -> int:
        """Starts the workflows of a batch; gives the run group."""
        form = {"batch_id": str(batch_id), "param_id": "default", **form}
        return self.post("batch/start-workflows", data=form)["run_group"]["id"]

    def finish(self, run_group_id: int) -> dict[str, Any]:
        """Follows the feed until the group has ended, and gives it."""
        with (
            self.client() as client,
            client.stream("GET", "/api/v1/events", params={"run_group_id": run_group_id}, timeout=PATIENCE) as lines,
        ):
            for line in lines.iter_lines():
                if line.startswith("data:") and self._has_ended(run_group_id):
                    break
        return self.get(f"workflow/run-groups/{run_group_id}")

    def _has_ended(self, run_group_id: int) -> bool:
        return self.get(f"workflow/run-groups/{run_group_id}")["status"] in {"COMPLETED", "FAILED", "CANCELLED"}

    def ingest(self, name: str, documents: dict[str, bytes], *, source: str = "browser", **form: str) -> int:
        """A batch whose runs have ended; gives the run group."""
        group = self.start(self.batch(name, documents, source=source), **form)
        self.finish(group)
        return group


@dataclass
class Visitor:
    """Somebody at a browser of a given size and taste, logged in with a key."""

    installation: Installation
    context: BrowserContext
    page: Page
    complaints: list[str]
    """What the page wrote into its console as an error or a warning, what it threw, and what its policy refused."""
    expected: set[str] = field(default_factory=set[str])
    """Parts of complaints that are meant to be: of a request that is refused, for one."""

    def go(self, path: str) -> Page:
        """Opens a page of the UI by its address behind the `#`."""
        self.page.goto("about:blank")  # or the page before would stand there until this one is loaded
        self.page.goto(f"{self.installation.url}/ui/#{path}")
        expect(self.page.get_by_role("heading", level=1)).to_be_visible()
        return self.page

    def log_in(self, key: str) -> None:
        answer = self.context.request.post(f"{self.installation.url}/api/v1/session", data={"key": key})
        assert answer.status == 201, answer.text()

    def surprises(self) -> list[str]:
        return [each for each in self.complaints if not any(part in each for part in self.expected)]

    def violations(self) -> list[str]:
        """What axe finds that is serious or worse, on the page as it stands."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found: dict[str, Any] = self.page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
        return [
            f"{each['id']}: {each['help']}: {json.dumps([node['html'] for node in each['nodes']][:3])}"
            for each in found["violations"]
            if each["impact"] in {"serious", "critical"}
        ]


_TELL_OF_VIOLATIONS: Final = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`));
"""


@contextmanager
def visiting(
    browser: Browser,
    installation: Installation,
    *,
    size: tuple[int, int] = WIDE,
    colours: Literal["light", "dark"] = "light",
    key: str | None = None,
    scale: float = 1,
) -> Generator[Visitor]:
    """A browser window of its own: no cookie, no memory of others. Without a key it is not logged in."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=colours, device_scale_factor=scale
    )
    context.add_init_script(_TELL_OF_VIOLATIONS)
    complaints: list[str] = []
    page = context.new_page()

    def note(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            complaints.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    page.on("console", note)
    page.on("pageerror", lambda error: complaints.append(f"thrown: {error}"))
    visitor = Visitor(installation, context, page, complaints)
    try:
        if key is not None:
            visitor.log_in(key)
        yield visitor
    finally:
        context.close()
