"""Sidecars: `report.pdf.meta.json` beside `report.pdf` holds its metadata, and is no document itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from soliplex.ingester.installation.local_files import LocalFile, Unreadable, reason_of
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.storable import LARGEST_META, checked_name, parse_object

SUFFIX: Final = ".meta.json"


def with_metadata(files: Sequence[LocalFile]) -> Iterator[LocalFile | Unreadable | Path]:
    """The files with what their sidecars say; a file whose sidecar is wrong is unreadable; a sidecar is a path.

    The files of an archive are given all at once: what lies beside one of them is found among the others.
    """
    unpacked = {file.path: file.bytes_at for file in files if file.content is not None}

    def bytes_at(path: Path) -> Path | None:
        return unpacked.get(path) or (path if path.is_file() else None)

    for file in files:
        name = file.path.name
        if name.endswith(SUFFIX) and name != SUFFIX and bytes_at(file.path.with_name(name.removesuffix(SUFFIX))):
            yield file.path
            continue
        sidecar = file.path.with_name(f"{name}{SUFFIX}")
        content = bytes_at(sidecar)
        yield file if content is None else _described(file, sidecar, content)


def _described(file: LocalFile, sidecar: Path, content: Path) -> LocalFile | Unreadable:
    try:
        with content.open("rb") as opened:
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
