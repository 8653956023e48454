"""Whoever installs the package with plain pip gets no torch, no CUDA, and one OpenCV at most.

The overrides of uv count for none of this: they hold in this checkout only.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS: list[str] = sorted(PROJECT["project"]["optional-dependencies"])
ENVIRONMENT = {name: str(value) for name, value in default_environment().items()}
HEAVY = re.compile(r"torch.*|nvidia-.*|triton|cuda-.*|sentence-transformers")
PIP = ("-m", "pip", "--disable-pip-version-check", "-qq")


def refused(names: set[str]) -> list[str]:
    """Names that must not be there."""
    opencvs = sorted(name for name in names if name.startswith("opencv-"))
    return [*filter(HEAVY.fullmatch, sorted(names)), *(opencvs if len(opencvs) > 1 else [])]


def wishes_of(requirement: Requirement) -> Iterator[Requirement]:
    """What an installed package asks for, itself and for the extras it is asked for with."""
    for text in distribution(requirement.name).requires or ():
        wish = Requirement(text)
        environments = [{**ENVIRONMENT, "extra": extra} for extra in (*requirement.extras, "")]
        if wish.marker is None or any(wish.marker.evaluate(it) for it in environments):
            yield wish


def asked_for(requirements: list[Requirement]) -> set[str]:
    """The names of all packages that come along, by what the installed ones say."""
    names, seen, waiting = set[str](), set[str](), list(requirements)
    while waiting:
        wish = waiting.pop()
        names.add(canonicalize_name(wish.name))
        if str(wish) not in seen:
            seen.add(str(wish))
            try:
                waiting += wishes_of(wish)
            except PackageNotFoundError:  # its name is known, and that is refused or not
                continue
    return names


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_no_package_of_an_extra_asks_for_torch_or_a_second_opencv(extra: str) -> None:
    names = asked_for([Requirement(f"soliplex-ingester[{extra}]")])
    assert len(names) > 100
    assert not refused(names)


def test_uv_is_told_to_leave_out_nothing() -> None:
    assert "override-dependencies" not in PROJECT.get("tool", {}).get("uv", {})


def resolved(python: Path, wheel: Path, extras: str, report: Path) -> set[str]:
    asking = (*PIP, "install", "--dry-run", "--ignore-installed", "--report", str(report), f"{wheel}[{extras}]")
    found = subprocess.run((str(python), *asking), check=False, capture_output=True, text=True)
    assert not found.returncode, found.stderr
    return {canonicalize_name(it["metadata"]["name"]) for it in json.loads(report.read_text("utf-8"))["install"]}


@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("index")
def test_pip_installs_all_extras_together_without_torch_and_a_second_opencv(
    wheel: Path, empty_python: Path, tmp_path: Path
) -> None:
    names = resolved(empty_python, wheel, ",".join(EXTRAS), tmp_path / "report.json")
    assert "onnxruntime" in names
    assert not refused(names)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("extra", EXTRAS)
def test_pip_installs_each_extra_without_torch_and_a_second_opencv(
    extra: str, wheel: Path, empty_python: Path, tmp_path: Path
) -> None:
    assert not refused(resolved(empty_python, wheel, extra, tmp_path / "report.json"))
