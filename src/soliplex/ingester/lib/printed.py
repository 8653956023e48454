"""What libraries print, taken line by line from where it was going, also by code in C and by processes of ours.

    a library: print(), write(2, ...) ──┐
    a process that handlers run in ─────┴─▶ descriptors 1 and 2 = a pipe ──▶ a thread ──▶ `handle`, once a line

    what we show ourselves ──▶ `Taken.err`, where descriptor 2 led before

Processes that are started meanwhile inherit the pipe, and an environment variable which says that somebody reads them:
they write their log as JSON then, so that each record keeps its level. Imports next to nothing but the standard
library, since every such process imports it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import json
import logging
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, TextIO, override

from soliplex.ingester.lib.log_facts import facts_now

READ: Final = "SOLIPLEX_PRINTED_LINES_ARE_READ"
"""The variable that tells a process, in its environment, that what it prints is taken for the log."""
LONGEST_LINE: Final = 64 << 10
"""Bytes after which a line that does not end is handed on as it is."""
_PIPE_SIZE: Final = 1 << 20
"""Bytes that may be printed by code that keeps our thread from reading: the most that Linux allows anybody."""
_BLOCK: Final = 1 << 16
_STANDARD: Final = (1, 2)
_OUT, _ERR = _STANDARD
_taken: Final[list[Taken]] = []


def release_printed() -> None:
    """See that all that was printed until now is handled, and take nothing more: before a process ends."""
    for each in reversed(list(_taken)):
        each.release()


class Taken:
    """Descriptors 1 and 2 lead to `handle`, from now until `release`; it is given each line, and `err`."""

    def __init__(self, handle: Callable[[str, TextIO], None]) -> None:
        self._handle = handle
        _flush()
        self._before = [os.dup(number) for number in _STANDARD]
        self.err: Final[TextIO] = os.fdopen(
            os.dup(_ERR), "w", encoding=sys.stderr.encoding or "utf-8", errors="backslashreplace", buffering=1
        )
        self._pipe, write_end = os.pipe()
        os.set_blocking(self._pipe, False)
        with contextlib.suppress(OSError):  # the system allows less: then the pipe stays as large as it is
            fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        self._stop, self._stopping = os.pipe()
        for number in _STANDARD:
            os.dup2(write_end, number)
        os.close(write_end)
        os.environ[READ] = "1"
        if faulthandler.is_enabled():
            # Not into the pipe: a process that dies of a signal has no thread any more that would read it.
            faulthandler.enable(self.err)
        self._lock = threading.Lock()
        self._is_released = False
        self._thread = threading.Thread(target=self._read, name="printed", daemon=True)
        self._thread.start()
        _taken.append(self)

    def release(self) -> None:
        """Let the descriptors lead where they led before. What was printed until now is handled before this returns."""
        with self._lock:
            if self._is_released:
                return
            self._is_released = True
            _taken.remove(self)
            _flush()
            for number, before in zip(_STANDARD, self._before, strict=True):
                os.dup2(before, number)
                os.close(before)
            os.environ.pop(READ, None)
            os.close(self._stopping)
            self._thread.join()
            for descriptor in (self._pipe, self._stop):
                os.close(descriptor)
            if faulthandler.is_enabled():
                faulthandler.enable(sys.__stderr__ or 2)
            self.err.flush()

    def _read(self) -> None:
        waiting = select.poll()
        waiting.register(self._pipe, select.POLLIN)
        waiting.register(self._stop, select.POLLIN)
        rest = b""
        is_last = False
        while not is_last:
            # Not the end of the pipe: processes that outlive us hold it open.
            is_last = any(descriptor == self._stop for descriptor, _ in waiting.poll())
            for block in self._blocks():
                *lines, rest = (rest + block).replace(b"\r", b"\n").split(b"\n")
                if len(rest) > LONGEST_LINE:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    self._hand_on(line)
        self._hand_on(rest)

    def _blocks(self) -> Iterator[bytes]:
        with contextlib.suppress(BlockingIOError):
            while block := os.read(self._pipe, _BLOCK):
                yield block

    def _hand_on(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        if not text:
            return
        try:
            self._handle(text, self.err)
        except Exception:  # noqa: BLE001  nobody would read any more, and whoever prints would wait for ever
            with contextlib.suppress(OSError):  # the handler itself failed, and there is no other place to report to
                print(text, file=self.err)


class RecordAsJson(logging.Formatter):
    """A record of the log as one line of JSON, with the names that our log has."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "pid": record.process,
        }
        told |= {name: value for name, value in facts_now().items() if name not in told}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


class _RecordAsText(logging.Formatter):
    """A record for people, with what was worked on at its end."""

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        facts = " ".join(f"{name}={value}" for name, value in facts_now().items())
        return f"{super().formatMessage(record)} {facts}" if facts else super().formatMessage(record)


def log_in_process(level: int) -> None:
    """Set up the log of a process that handlers run in: for whoever reads it, else for people."""
    handler, is_read = logging.StreamHandler(), READ in os.environ
    as_text = _RecordAsText("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(RecordAsJson() if is_read else as_text)
    logging.basicConfig(level=level, handlers=[handler])
    log_no_contents(level)
    if is_read:
        logging.captureWarnings(capture=True)


TELL_CONTENTS: Final = ("aiosqlite", "docling", "docling_core", "docling_parse", "haiku", "mailparser", "PIL")
"""Loggers that tell at DEBUG what they read and write: the text of documents, values in the database."""


def log_no_contents(level: int) -> None:
    """Keep what documents say out of a log of this level."""
    for name in TELL_CONTENTS:
        logging.getLogger(name).setLevel(max(logging.INFO, level))


def record_in(line: str) -> dict[str, Any] | None:
    """The record that a process of ours wrote; None if somebody printed the line."""
    if not line.startswith("{"):
        return None
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) and {"event", "level"} <= told.keys() else None


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed, or nobody reads it
            stream.flush()
