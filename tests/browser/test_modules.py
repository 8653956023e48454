"""The modules of the web UI that need no browser, and the types of all of it."""

from __future__ import annotations

import subprocess
from typing import Final

import pytest

from tests.support.browser import ROOT

NOT_INSTALLED: Final = 3


@pytest.mark.parametrize("script", ["test", "check"])
def test_the_modules_do_what_they_say(script: str) -> None:
    done = subprocess.run(("sh", "scripts/ui.sh", script), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == NOT_INSTALLED:
        pytest.skip("the packages of the web UI are not installed: `sh scripts/ui.sh` says why")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
