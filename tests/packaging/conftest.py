"""The wheel, built once, and empty environments to install it into."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    building = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT))
    subprocess.run(building, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def empty_python(tmp_path: Path) -> Path:
    """The Python of an environment that holds pip alone."""
    subprocess.run((sys.executable, "-m", "venv", str(tmp_path / "venv")), check=True)
    return tmp_path / "venv" / "bin" / "python"


@pytest.fixture
def index(empty_python: Path) -> None:
    """Skips where pip reaches no package index: what it would install cannot be known there."""
    asking = (*PIP, "install", "--dry-run", "--ignore-installed", "--no-deps", "--retries=1", "--timeout=30", "pip")
    found = subprocess.run((str(empty_python), *asking), check=False, capture_output=True, text=True)
    if found.returncode:
        pytest.skip("pip reaches no package index")


PIP = ("-m", "pip", "--disable-pip-version-check", "-qq")
