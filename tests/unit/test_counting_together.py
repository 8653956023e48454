"""The folder that processes count into: one for all of them, gone with the process that made it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from soliplex.ingester.cli.shared_metrics import FOLDER, counted_together, remove_left_behind


@pytest.fixture(autouse=True)
def folder_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(FOLDER, raising=False)
    return tmp_path


def test_the_folder_is_there_for_the_time_of_the_block(folder_of_folders: Path) -> None:
    with counted_together():
        folder = Path(os.environ[FOLDER])
        assert folder.is_dir()
        with counted_together():
            assert os.environ[FOLDER] == str(folder)
    assert FOLDER not in os.environ
    assert list(folder_of_folders.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_uses_stays(folder_of_folders: Path) -> None:
    left, begun = folder_of_folders / "soliplex-metrics-left", folder_of_folders / "soliplex-metrics-begun"
    for folder in (left, begun):
        folder.mkdir()
    (left / "lock").touch()  # nobody holds it
    (left / "counter_1.db").touch()
    with counted_together():
        used = Path(os.environ[FOLDER])
        remove_left_behind()  # as another process does when it starts
        assert set(folder_of_folders.iterdir()) == {used, begun}
