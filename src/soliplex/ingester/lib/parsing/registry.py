"""Parsers by name. A new one is a class that `Parser` describes, and a line here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.errors import ConfigurationError, IngesterError
from soliplex.ingester.lib.parsing.errors import unreadable
from soliplex.ingester.lib.parsing.formats import extension_for, media_type
from soliplex.ingester.lib.parsing.options import ParseOptions
from soliplex.ingester.lib.parsing.results import BlockingParser, Parsed, Parser
from soliplex.ingester.lib.step_options import InvalidStepOptionError
from soliplex.ingester.lib.validation.errors import is_system_trouble
from soliplex.ingester.lib.wf.errors import suggestion
from soliplex.ingester.lib.wiring import current_wiring


def _local(_settings: Settings) -> Parser:
    from soliplex.ingester.lib.parsing.local import LocalParser  # noqa: PLC0415  parsers are loaded when first named

    return LocalParser()


def _fast(_settings: Settings) -> Parser:
    from soliplex.ingester.lib.parsing.fast import FastParser  # noqa: PLC0415  as above

    return FastParser()


def _docling_serve(settings: Settings) -> Parser:
    from soliplex.ingester.lib.parsing.serve import DoclingServeParser  # noqa: PLC0415  as above

    if not settings.docling_server_url:
        raise ConfigurationError(
            "DOCLING_SERVER_URL", "is not set, and the parser docling-serve needs it", "set it, or use the parser local"
        )
    return DoclingServeParser(settings.docling_server_url, timeout=settings.docling_http_timeout)


_PARSERS: Final[dict[str, Callable[[Settings], Parser]]] = {
    "local": _local,
    "docling-serve": _docling_serve,
    "fast": _fast,
}


def parser_named(name: str) -> Parser:
    """The parser of that name, which the current wiring keeps with its models or connections."""
    if name not in _PARSERS:
        raise InvalidStepOptionError("parse.parser", f"there is no parser {name!r}; {suggestion(name, _PARSERS)}")
    return current_wiring().made(_PARSERS[name])


def parse_blocking(parser: str, path: Path, mime_type: str, options: ParseOptions) -> Parsed:
    """Parse here and now, in a process that may be killed for it: what the engine calls by its name."""
    chosen = parser_named(parser)
    assert isinstance(chosen, BlockingParser)
    try:
        return chosen.parse_blocking(path, mime_type=mime_type, options=options)
    except IngesterError:
        raise
    except Exception as exc:
        if is_system_trouble(exc):
            raise
        # Libraries raise whatever they trip over, and the document stays as it is.
        raise unreadable(extension_for(media_type(mime_type)), detail=f"{type(exc).__name__}: {exc}") from exc


def parser_names() -> tuple[str, ...]:
    return tuple(_PARSERS)


def chosen_parser_name(options: ParseOptions) -> str:
    """The parser that the options name; else docling-serve where the settings name a server, or the local one."""
    return options.parser or ("docling-serve" if current_wiring().settings.docling_server_url else "local")
