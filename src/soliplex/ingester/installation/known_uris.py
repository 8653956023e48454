"""From what a user calls a document, such as the path of its file, to the URI under which it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from soliplex.ingester.installation.protocol import Installation
from soliplex.ingester.lib.errors import DocumentURINotFoundError


def _place(uri: str, source: str) -> str:
    return f"{uri} (source {source})"


async def known_uri(
    installation: Installation, uri: str, source: str, *, place: Callable[[str, str], str] = _place
) -> str:
    """The URI as it was given; else, if that is the path of a file that is known, the one that its ingestion gave it.

    Where neither is known, the error names URIs that are like it, as `place` writes each with its source.
    """
    for candidate in dict.fromkeys((uri, _as_path(uri))):
        if await installation.knows(candidate, source):
            return candidate
    found = await installation.find(uri.rstrip("/").rpartition("/")[2] or uri, 3)
    hint = "; ".join(place(*each) for each in found)
    raise DocumentURINotFoundError(uri, source, hint=f"did you mean {hint}?" if hint else None)


async def known_uris(
    installation: Installation, uris: Sequence[str], source: str, *, place: Callable[[str, str], str] = _place
) -> list[str]:
    """The known URIs, each once, as `known_uri` finds them."""
    return list(dict.fromkeys([await known_uri(installation, uri, source, place=place) for uri in uris]))


def _as_path(uri: str) -> str:
    return Path(uri).absolute().as_posix()
