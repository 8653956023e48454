"""Metrics of several processes as one: they count into files of a folder that they share, and any of them tells of all.

A server or worker starts processes for the handlers of its steps, and these count, too; a server may itself be several
processes. The process that made the folder removes it at its end. The folder of a process that was killed is removed by
the next process that starts: as long as a process lives, it holds the lock of a file in its folder.
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
"""The variable that names the folder to prometheus-client, which reads it once, when it is imported."""
_PREFIX: Final = "soliplex-metrics-"
_LOCK: Final = "lock"


@contextmanager
def counted_together() -> Generator[None]:
    """For the time of the block, this process and those it starts count into one folder.

    Where the variable FOLDER names a folder, that one is used; else a new one is made and named there.
    """
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
    """Remove the folders whose process is gone. A folder that cannot be read is another user's, and stays."""
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
