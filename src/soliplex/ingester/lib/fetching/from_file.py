"""`file:///folder/name`: files of this machine, below the folders that documents may be read from."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from soliplex.ingester.lib.fetching.errors import InputRefusedError
from soliplex.ingester.lib.fetching.wanted import Wanted
from soliplex.ingester.lib.storage.blobs import BLOCK
from soliplex.ingester.lib.storage.threads import in_thread


async def read_file(wanted: Wanted) -> AsyncGenerator[bytes]:
    """The file, if it lies below INPUT_FILE_ROOTS."""
    host = wanted.parts.netloc
    if host not in {"", "localhost"}:
        raise InputRefusedError(f"file://{host}/… names another machine; write file:///folder/name")
    file = await in_thread(open_below, unquote(wanted.parts.path), wanted.settings.input_file_roots)
    try:
        while block := await in_thread(file.read, BLOCK):
            yield block
    finally:
        file.close()


def open_below(path: str, roots: Sequence[Path]) -> BinaryIO:
    """Open a plain file for reading if, with all links followed, it lies below one of the roots."""
    refusal = InputRefusedError(f"{path!r} is no file below a folder that documents may be read from")
    try:
        real = Path(path).resolve(strict=True)
        if not any(real.is_relative_to(root.resolve()) for root in roots):
            raise refusal
        # Not blocking: opening a pipe would wait for whoever writes to it. Following no link: one may be new.
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError, RuntimeError) as exc:
        raise refusal from exc
    if stat.S_ISREG(os.fstat(descriptor).st_mode) and _is_still(real, descriptor):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise refusal


def _is_still(real: Path, descriptor: int) -> bool:
    """Whether what was opened is what was checked: a folder on the way may have become a link in between."""
    try:
        return real.resolve(strict=True) == real and os.path.samestat(real.stat(), os.fstat(descriptor))
    except OSError:
        return False
