"""One real server with a worker and one real chromium for all tests here; each visitor has a window of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

from soliplex.ingester.server.ui import is_built
from tests.support.browser import WIDE, Installation, Visitor, chromium_path, running_browser, visiting
from tests.support.segmenting import PROGRAM
from tests.support.segmenting import SETTINGS as OF_SEGMENTING
from tests.support.serving import serving

type Visits = Callable[..., Visitor]

ADMIN_KEY = "the-key-of-the-settings"
NO_CHROMIUM = "there is no chromium: install it with `apt-get install chromium`"
SETTINGS = OF_SEGMENTING | {
    "API_KEY_ENABLED": "true",
    "API_KEY": ADMIN_KEY,
    "FLOW_MODULES": "tests.support.flow_functions",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests here, and run them first: the same test process then takes them all, and one server will do."""
    for item in items:
        if _is_here(item):
            item.add_marker(pytest.mark.browser)
    items.sort(key=lambda item: not _is_here(item))


def _is_here(item: pytest.Item) -> bool:
    return Path(__file__).parent in item.path.parents


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Not for longer than a module: Playwright's event loop runs in this thread until its last browser is closed, and
    tests of other folders have loops of their own."""
    if chromium_path() is None:
        pytest.skip(NO_CHROMIUM)
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="package")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    if chromium_path() is None:
        pytest.skip(NO_CHROMIUM)
    if not is_built():
        pytest.skip("the web UI is not built: `sh scripts/ui.sh` says why")
    with serving(tmp_path_factory.mktemp("installation"), environment=SETTINGS, program=PROGRAM) as server:
        yield Installation(server, ADMIN_KEY)


@pytest.fixture
def visit(chromium: Browser, installation: Installation) -> Iterator[Visits]:
    """Opens windows. At the end of the test, none may have complained of what the test does not expect."""
    with ExitStack() as windows:
        visitors: list[Visitor] = []

        def opened(
            *,
            size: tuple[int, int] = WIDE,
            colours: Literal["light", "dark"] = "light",
            key: str | None = ADMIN_KEY,
        ) -> Visitor:
            window = windows.enter_context(visiting(chromium, installation, size=size, colours=colours, key=key))
            visitors.append(window)
            return window

        yield opened
        assert [each for visitor in visitors for each in visitor.surprises()] == []
