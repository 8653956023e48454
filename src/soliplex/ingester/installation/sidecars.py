"""Sidecars: `report.pdf.meta.json` beside `report.pdf` holds its metadata, and is no document itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from soliplex.ingester.installation.files import LocalFile, Unreadable, reason_of
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.storable import LARGEST_META, checked_name, parse_object

SUFFIX: Final = ".meta.json"


def with_metadata(files: Iterable[LocalFile]) -> Iterator[LocalFile | Unreadable | Path]:
    """The files with what their sidecars say; a file whose sidecar is wrong is unreadable; a sidecar is a path."""
    for file in files:
        name = file.path.name
        if name.endswith(SUFFIX) and name != SUFFIX and file.path.with_name(name.removesuffix(SUFFIX)).is_file():
            yield file.path
            continue
        sidecar = file.path.with_name(f"{name}{SUFFIX}")
        yield _described(file, sidecar) if sidecar.is_file() else file


def _described(file: LocalFile, sidecar: Path) -> LocalFile | Unreadable:
    try:
        with sidecar.open("rb") as opened:
            text = opened.read(4 * LARGEST_META).decode()
        meta = parse_object(sidecar.name, text)
        for name in meta:
            checked_name(f"{sidecar.name}: the name {name!r}", name)
    except UnicodeDecodeError:
        return Unreadable(file.path, f"{sidecar.name}: must be UTF-8 text")
    except OSError as error:
        return Unreadable(file.path, f"{sidecar.name}: {reason_of(error)}")
    except InvalidInputError as error:
        return Unreadable(file.path, str(error))
    return replace(file, meta=meta)
