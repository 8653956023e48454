"""Counting together: processes that count into files of a folder they share, so that whichever is asked tells of all.

A server or worker starts processes for the handlers of its steps, and these count too; a server may be several. The
folder goes with the process that made it. What one that was killed has left is removed by the next: as long as a
process lives, it holds the lock of a file in its folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus-client knows of the folder. It looks when it is imported, and only then."""
_PREFIX: Final = "soliplex-metrics-"
_LOCK: Final = "lock"


@contextmanager
def counted_together() -> Generator[None]:
    """For the time of the block, this process and those it starts count into one folder; one that is given is used."""
    if FOLDER in os.environ:
        yield
        return
    remove_left_behind()
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as folder, _locked(Path(folder)):
        os.environ[FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER]


def remove_left_behind() -> None:
    """Remove the folders whose process is gone. Whatever cannot be looked into belongs to others, and stays."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError), lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent)


@contextmanager
def _locked(folder: Path) -> Generator[TextIO]:
    draft = folder / f"{_LOCK}.draft"
    with draft.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        draft.rename(folder / _LOCK)  # held before anybody can find it
        yield file
