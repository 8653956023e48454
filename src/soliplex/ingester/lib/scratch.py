"""Temporary files of processes that may be killed at any moment.

What such a process leaves in the common folder for temporary files, nobody ever removes. So each has a folder of its
own in there, and holds a lock on a file beside it for as long as it lives:

    /tmp/soliplex-1000/3f2a….lock     locked by the process; free as soon as that is gone, however it ended
    /tmp/soliplex-1000/3f2a…/         office-x7/, parse-k2/, and whatever docling, LibreOffice and others put there

Whoever can take a lock removes the folder: the worker after it ended a process, and every new process.

Processes that read documents have all of their temporary files there. A program that runs a worker lends its folder to
libraries alone, which look for it in the environment: LanceDB leaves a folder behind for each vector index it makes.
"""

from __future__ import annotations

import atexit
import fcntl
import importlib
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

_log = logging.getLogger(__name__)

CALL: Final = f"{__name__}.call"
_TMPDIR: Final = "TMPDIR"
_NAME: Final = f"soliplex-{os.getuid()}"


def call(function: str, arguments: Mapping[str, Any]) -> Any:
    """Call a function by its dotted path, in a process whose temporary files are in a folder of its own."""
    _use_own_folder()
    module, _, name = function.rpartition(".")
    return getattr(importlib.import_module(module), name)(**arguments)


def sweep() -> int:
    """Remove what dead processes have left; gives how many had left something. Blocks."""
    try:
        locks = [path for path in _common().iterdir() if path.suffix == ".lock"]
    except OSError:
        return 0  # no process of this user has had a folder yet
    return sum(map(_remove_if_dead, locks))


@cache
def own_folder() -> Path | None:
    """The folder of this process; None if it can have none. Made when it is first asked for."""
    try:
        sweep()
        folder = _made(_common())
    except OSError as exc:
        _log.warning("temporary files of a killed process will stay, since it has no folder of its own: %s", exc)
        return None
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _use_own_folder() -> None:
    """Let all temporary files of this process, and of those it starts, go into a folder of its own."""
    if folder := own_folder():
        tempfile.tempdir = str(folder)
        os.environ[_TMPDIR] = str(folder)


def lend_folder() -> None:
    """Let libraries that are not written in Python put their temporary files into the folder of this process.

    For programs of ours only: a process of others may want to keep what the programs it starts put into TMPDIR.
    """
    if folder := own_folder():
        tempfile.gettempdir()  # remembered from now on: Python's own temporary files stay where they were
        os.environ[_TMPDIR] = str(folder)


def renew_folder() -> None:
    """Make the folder that was lent anew, if somebody has tidied it away: systems remove what is old in /tmp."""
    folder = Path(os.environ.get(_TMPDIR, os.curdir))
    if folder.parent.name == _NAME:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


@cache
def _common() -> Path:
    """The folder of this user's folders; found once, before the process has one of its own."""
    folder = Path(tempfile.gettempdir())
    # The child of a program that has lent its folder has its own beside that, not in it, where it would be removed too.
    return folder.parent if folder.parent.name == _NAME else folder / _NAME


def _made(common: Path) -> Path:
    common.mkdir(mode=0o700, exist_ok=True)
    found = common.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{common} belongs to somebody else")
    while True:
        folder = common / uuid4().hex
        lock = folder.with_suffix(".lock")
        # Never closed: the lock is held until the process ends. Programs that it starts do not inherit it.
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        if _is_at(lock, file):
            folder.mkdir(mode=0o700)
            return folder
        os.close(file)  # another took it for a dead one's before it was locked


def _is_at(path: Path, file: int) -> bool:
    try:
        return path.stat().st_ino == os.fstat(file).st_ino
    except FileNotFoundError:
        return False


def _remove_if_dead(lock: Path) -> bool:
    try:
        file = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # another has removed it
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder = lock.with_suffix("")
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():  # what a dying child of the dead one still writes to is left to the next sweep
            lock.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True
