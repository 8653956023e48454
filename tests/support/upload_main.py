"""A process that uploads a document and dies on the way. Run as `python -m tests.support.upload_main POINT`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NoReturn
from unittest.mock import patch

from soliplex.ingester.lib.models import ArtifactType
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.storage.blobs import BLOCK

CONTENT: Final = b"all work and no play " * (3 * BLOCK // 20)
ARTIFACT: Final = b"# what was made of it\n" * 1000
CONFIG: Final = 7


def die(*_arguments: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


RENAMES: Final = ("rename", "replace")


def die_before_the_file_is_safe() -> None:
    patch.object(os, "fsync", die).start()


def die_before_the_rename() -> None:
    for name in RENAMES:
        patch.object(os, name, die).start()


def die_after_the_rename() -> None:
    for name in RENAMES:
        patch.object(os, name, _and_die(getattr(os, name))).start()


def _and_die(rename: Callable[[Any, Any], None]) -> Callable[[Any, Any], NoReturn]:
    def rename_and_die(path: Any, target: Any) -> NoReturn:
        rename(path, target)
        die()

    return rename_and_die


DEATHS: Final = {
    "safe": die_before_the_file_is_safe,
    "before_rename": die_before_the_rename,
    "after_rename": die_after_the_rename,
}


async def content(point: str) -> AsyncIterator[bytes]:
    for start in range(0, len(CONTENT), BLOCK):
        if start > BLOCK and point == "receiving":  # one block is on the disk, one is held
            die()
        yield CONTENT[start : start + BLOCK]


async def upload(point: str) -> None:
    artifacts = get_artifacts()
    received = await artifacts.receive(content(point), limit=None)
    if point == "received":
        die()
    if point.startswith("document_"):
        DEATHS[point.removeprefix("document_")]()
    await artifacts.keep(received)
    if point.startswith("artifact_"):
        DEATHS[point.removeprefix("artifact_")]()
    await artifacts.write(received.hash, ArtifactType.PARSED_MD, CONFIG, ARTIFACT)
    die()


if __name__ == "__main__":
    asyncio.run(upload(sys.argv[1]))
