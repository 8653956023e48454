"""Logging: one line a record, for people or as JSON, to standard error.

A program whose log is JSON writes nothing else there: what libraries print, warnings and errors that nobody caught are
records too.
"""

from __future__ import annotations

import atexit
import logging
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TextIO, override

from soliplex.ingester.lib.config import GeneralSettings
from soliplex.ingester.lib.log_facts import facts_now
from soliplex.ingester.lib.printed import Taken, log_no_contents, record_in, release_printed
from soliplex.ingester.lib.visible import visible, visible_lines

if TYPE_CHECKING:
    import structlog

_TALKATIVE = ("alembic.runtime.plugins", "httpx", "httpcore")
"""Loggers whose every word at INFO is of interest to their makers only."""

_OF_SEVERAL_LINES = frozenset({"exception", "stack"})
_OF_EVERY_RECORD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


_printed: Final = logging.getLogger("printed")
"""The logger of lines that were printed."""
_uncaught: Final = logging.getLogger("uncaught")
_OURS: Final = "soliplex"
_log_of_all: Final[list[TextIO]] = []
"""Where the log goes once everything that this process prints is part of it."""


def configure_logging(settings: GeneralSettings, *, takes_printed: bool = False) -> None:
    """Send the log of this package and its libraries through structlog, in the format of LOG_FORMAT.

    With `takes_printed`, for programs that print no results: where the log is JSON, all that this process and those it
    starts print becomes part of it, to the end of the process.
    """
    if takes_printed and settings.log_format == "json":
        _take_all()
    handler = _Handler(_log_of_all[0] if _log_of_all else sys.stderr)
    handler.setFormatter(_formatter(settings))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    log_no_contents(root.level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def _formatter(settings: GeneralSettings) -> logging.Formatter:
    # Imported here: it brings rich's tracebacks and pygments along, and most commands log nothing.
    import structlog  # noqa: PLC0415

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _with_extra,
        _with_facts,
        _without_colours,
        structlog.processors.format_exc_info,
    ]
    renderers: list[structlog.typing.Processor] = (
        [structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [_visibly, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
    )


class _Handler(logging.StreamHandler[TextIO]):
    """Writes records. Where nobody reads the log any more, it is dropped.

    The handler of the standard library would print a traceback, which would become part of the log, and so on.
    """

    @override
    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)


def _take_all() -> None:
    if _log_of_all:
        return
    _log_of_all.append(Taken(_note).err)
    atexit.register(release_printed)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda told: _log_uncaught(told.exc_type, told.exc_value, told.exc_traceback)
    sys.unraisablehook = lambda told: _log_uncaught(told.exc_type, told.exc_value, told.exc_traceback)


def _note(line: str, err: TextIO) -> None:
    """A line that somebody printed becomes a record; one that a process of ours wrote is one already."""
    if record_in(line) is None:
        _printed.info("%s", line)
    else:
        err.write(f"{line}\n")


def _log_uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt | SystemExit):
        _uncaught.critical("%s", kind.__name__, exc_info=(kind, error or kind(), trace))


@contextmanager
def logged_beside(settings: GeneralSettings, show: Callable[[str], None]) -> Generator[TextIO | None]:
    """For the time of the block, nothing that is logged or printed gets into what a command shows of its progress.

    `show` is given what is logged: of this package, warnings and what is worse, of others nothing; with LOG_LEVEL=DEBUG
    all, also what is printed. Gives where to write what is ours; None if it is to be printed as ever, since the log is
    JSON and every line of it a record.
    """
    root = logging.getLogger()
    before = root.handlers[:], root.level
    is_json = settings.log_format == "json"
    shown = _Shown(show, is_all=settings.log_level == "DEBUG")
    taken = Taken(_note if is_json else lambda line, _: _show_printed(line, shown))
    handler = shown
    if is_json:
        handler = _Handler(taken.err)
        handler.setFormatter(_formatter(settings))
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    log_no_contents(root.level)
    logging.captureWarnings(capture=True)
    try:
        yield None if is_json else taken.err
    finally:
        logging.captureWarnings(capture=False)
        taken.release()
        taken.err.close()
        root.handlers[:], level = before
        root.setLevel(level)


class _Shown(logging.Handler):
    """Shows records to a person who looks at something else."""

    def __init__(self, show: Callable[[str], None], *, is_all: bool) -> None:
        super().__init__(logging.DEBUG if is_all else logging.WARNING)
        self._show = show
        self._is_all = is_all

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if self._is_all or record.name.startswith(_OURS) or record.name in {"asyncio", _uncaught.name}:
            self._show(f"{record.levelname.lower()}: {record.getMessage()}")


def _show_printed(line: str, handler: logging.Handler) -> None:
    """A record of another process goes the way of ours; what is merely printed is for who asks for everything."""
    told = record_in(line)
    if told is None:
        _printed.debug("%s", line)
        return
    facts: dict[str, Any] = {"name": str(told.get("logger", "")), "msg": str(told["event"]), "args": ()}
    level = logging.getLevelNamesMapping().get(str(told["level"]).upper(), logging.INFO)
    record = logging.makeLogRecord({**facts, "levelno": level, "levelname": logging.getLevelName(level)})
    if level >= handler.level:
        handler.handle(record)


def _with_extra(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """What a record has in `extra`, beside its own words: an extra `event` must not take the place of the message."""
    record: logging.LogRecord | None = event.get("_record")
    for name, value in () if record is None else vars(record).items():
        if name not in _OF_EVERY_RECORD and event.get(name) is not value:
            event[f"{name}_" if name in event else name] = value
    return event


def _with_facts(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """The step, run and document that are worked on, unless the record speaks of others."""
    for name, value in facts_now().items():
        event.setdefault(name, value)
    return event


def _visibly(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Names and texts of strangers steer no terminal, and begin no line of their own. JSON escapes them by itself."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = visible_lines(value) if name in _OF_SEVERAL_LINES else visible(value)
    return event


def _without_colours(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """uvicorn sends each message a second time, with codes for terminals in it."""
    event.pop("color_message", None)
    return event
