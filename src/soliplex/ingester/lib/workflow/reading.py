"""Calls of what reads documents, in processes that a document may crash, stall or fill.

Whatever a document does to such a process, it does again: the call ends with an error that says so in the words of
whoever sent the document, and is not repeated.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.parsing.errors import Harm, HarmfulDocumentError
from soliplex.ingester.lib.parsing.formats import is_text, media_type
from soliplex.ingester.lib.wf.errors import HandlerCrashed, MemoryLimitExceeded, StepTimeout
from soliplex.ingester.lib.wf.isolation import ProcessPool

SECONDS_FOR_ANY_TEXT: Final = 60.0
BYTES_OF_TEXT_A_SECOND: Final = 20_000
"""The slowest kinds of markup are read ten times as fast. What is slower was made to be, and need not take as long as a
scanned book may."""


async def read_in_process(
    processes: ProcessPool, function: str, arguments: Mapping[str, object], *, seconds: float | None
) -> object:
    """Call a function that reads a document; HarmfulDocumentError if the document ends its process."""
    try:
        return await processes.run(function, arguments, timeout=seconds)
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


def _crash(exc: HandlerCrashed) -> str:
    cause = signal.Signals(-exc.returncode).name if exc.returncode < 0 else f"exit code {exc.returncode}"
    return f"the document crashed the program that read it ({cause}); it is damaged: save it anew, or as another format"


def time_to_read(path: Path, mime_type: str) -> float | None:
    """How long a process may read the document; None for as long as it takes."""
    longest = get_settings().parse_timeout_seconds or None
    if longest is None or not is_text(media_type(mime_type)):
        return longest
    return min(longest, SECONDS_FOR_ANY_TEXT + path.stat().st_size / BYTES_OF_TEXT_A_SECOND)
