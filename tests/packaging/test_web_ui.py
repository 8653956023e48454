"""The wheel holds the web UI as it was built, and nothing of what it is built with."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from soliplex.ingester.server.ui import is_built
from soliplex.ingester.server.ui.built_files import DIST

INSIDE = "soliplex/ingester/server/ui/dist/"


def test_the_wheel_holds_every_file_of_the_web_ui(wheel: Path) -> None:
    if not is_built():
        pytest.skip("the web UI is not built: `sh scripts/ui.sh` says why")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name.removeprefix(INSIDE): archive.read(name) for name in archive.namelist() if INSIDE in name}
        assert not [name for name in archive.namelist() if "node_modules" in name or name.endswith(".svelte")]
    assert packed == {
        path.relative_to(DIST).as_posix(): path.read_bytes() for path in DIST.rglob("*") if path.is_file()
    }
