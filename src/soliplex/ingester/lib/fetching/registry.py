"""The schemes by name. A new one is a file beside the others, a line here and a row in `docs/howto/storage.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from soliplex.ingester.lib.fetching import from_file, from_s3, from_web
from soliplex.ingester.lib.fetching.wanted import Scheme

SCHEMES: Final[Mapping[str, Scheme]] = {
    "file": from_file.read_file,
    "s3": from_s3.read_object,
    "http": from_web.read_page,
    "https": from_web.read_page,
}


def schemes_in_words() -> str:
    """How addresses begin, for messages and descriptions: `file://, s3://, http:// or https://`."""
    *others, last = (f"{scheme}://" for scheme in SCHEMES)
    return f"{', '.join(others)} or {last}"
