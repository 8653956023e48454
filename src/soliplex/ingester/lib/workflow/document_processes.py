"""Calls of what reads documents, in processes that a document may crash, stall or fill.

Whatever a document does to such a process, it does again: the call ends with an error that says so in the words of
whoever sent the document, and is not repeated. So does a document that takes all the time its step has, the second
time: if it was the engine that ended the attempt, it would begin anew as often as the workflow allows.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from enum import Enum
from pathlib import Path
from typing import Final

from soliplex.ingester.lib import scratch
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import RunStep
from soliplex.ingester.lib.parsing.errors import (
    Harm,
    HarmfulDocumentError,
    OutOfTimeError,
    ParseFailedError,
    ParserGaveUpError,
)
from soliplex.ingester.lib.parsing.formats import is_text, media_type
from soliplex.ingester.lib.storage.threads import in_thread
from soliplex.ingester.lib.wf.errors import HandlerCrashed, MemoryLimitExceeded, StepTimeout
from soliplex.ingester.lib.wf.isolation import ProcessPool

SECONDS_FOR_ANY_TEXT: Final = 60.0
BYTES_OF_TEXT_A_SECOND: Final = 20_000
"""Even the slowest kinds of markup are read ten times as fast. Slower markup was made to be slow, and must not take as
long as a scanned book may."""


class Share(Enum):
    """Up to which part of a step's time something may go on, so that what follows has some left."""

    FIRST_WAY = 0.6
    OTHER_WAYS = 0.8
    ALL_READING = 0.95


class StepTime:
    """The time that a step's attempt has, from now on."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._began = asyncio.get_running_loop().time()

    @asynccontextmanager
    async def within(self, share: Share) -> AsyncGenerator[None]:
        """End what is in the block when this share of the time is over: OutOfTimeError, also if it is over already."""
        if self._seconds is None:
            yield
            return
        until = self._began + self._seconds * share.value
        if asyncio.get_running_loop().time() >= until:
            raise OutOfTimeError(self._seconds)
        timeout = asyncio.timeout_at(until)
        try:
            async with timeout:
                yield
        except TimeoutError as exc:
            if not timeout.expired():
                raise  # another's time limit, such as a connection's
            raise OutOfTimeError(self._seconds) from exc


@contextmanager
def tried_twice(run_step: RunStep) -> Generator[None]:
    """Let a step whose reading came to nothing have a second attempt, and no third.

    It may have been waiting for a free process or server all the time. If that happens again, it will be the document.
    """
    try:
        yield
    except (OutOfTimeError, ParserGaveUpError) as exc:
        if (run_step.status_meta or {}).get("error_type") == ParserGaveUpError.__qualname__:
            raise ParseFailedError(str(exc)) from exc
        raise ParserGaveUpError(str(exc)) from exc


async def read_in_process(
    processes: ProcessPool, function: str, arguments: Mapping[str, object], *, seconds: float | None
) -> object:
    """Call a function that reads a document; HarmfulDocumentError if the document ends its process."""
    try:
        return await _run_tidily(processes, function, arguments, seconds)
    except StepTimeout as exc:
        problem = f"reading the document took longer than {exc.seconds:g} seconds"
        raise HarmfulDocumentError(Harm.STALLED, f"{problem}; raise PARSE_TIMEOUT_SECONDS, or split it") from exc
    except MemoryLimitExceeded as exc:
        problem = f"reading the document took more memory than the {exc.limit_mib} MiB of STEP_MEMORY_LIMIT_MIB"
        raise HarmfulDocumentError(Harm.FILLED, f"{problem}; raise it, or split the document") from exc
    except HandlerCrashed as exc:
        if exc.returncode == -signal.SIGKILL:
            raise  # by the system, which ran out of memory: that may be anyone's fault, and pass
        raise HarmfulDocumentError(Harm.CRASHED, _crash(exc)) from exc


async def _run_tidily(
    processes: ProcessPool, function: str, arguments: Mapping[str, object], seconds: float | None
) -> object:
    """The call; what a process leaves on the disk that is ended because of it, is removed."""
    try:
        return await processes.run(scratch.CALL, {"function": function, "arguments": arguments}, timeout=seconds)
    except (StepTimeout, MemoryLimitExceeded, HandlerCrashed, asyncio.CancelledError):
        await in_thread(scratch.sweep)
        raise


def _crash(exc: HandlerCrashed) -> str:
    cause = signal.Signals(-exc.returncode).name if exc.returncode < 0 else f"exit code {exc.returncode}"
    return f"the document crashed the program that read it ({cause}); it is damaged: save it anew, or as another format"


def time_to_read(path: Path, mime_type: str) -> float | None:
    """How long a process may read the document; None for as long as it takes."""
    longest = get_settings().parse_timeout_seconds or None
    if longest is None or not is_text(media_type(mime_type)):
        return longest
    return min(longest, SECONDS_FOR_ANY_TEXT + path.stat().st_size / BYTES_OF_TEXT_A_SECOND)
