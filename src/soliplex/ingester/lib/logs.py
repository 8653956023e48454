"""Logging: one line a record, for people or as JSON, to standard error."""

from __future__ import annotations

import logging
import sys

import structlog

from soliplex.ingester.lib.config import GeneralSettings
from soliplex.ingester.lib.visible import visible, visible_lines

_TALKATIVE = ("alembic.runtime.plugins", "httpx", "httpcore")
"""Loggers whose every word at INFO is of interest to their makers only."""

_OF_SEVERAL_LINES = frozenset({"exception", "stack"})


def configure_logging(settings: GeneralSettings) -> None:
    """Send the log of this package and its libraries through structlog, in the format of LOG_FORMAT."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(),
        _without_colours,
        structlog.processors.format_exc_info,
    ]
    renderers: list[structlog.typing.Processor] = (
        [structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [_visibly, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


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
