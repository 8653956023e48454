"""Office documents and books in the form that docling knows.

docling's readers take a Word file only if its list of types calls it a document, an OpenDocument file only if its
member `mimetype` says so, and a book only if that member comes first and is not compressed. Templates, slide shows and
files with macros differ in the first two; tools that pack any folder as a ZIP overlook the last. All are as readable as
the others, once that is changed.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.mime.containers import DAMAGED, EPUB, OFFICE_MAIN
from soliplex.ingester.lib.parsing.errors import damaged
from soliplex.ingester.lib.parsing.formats import OPEN_DOCUMENT, POWERPOINT, STRUCTURED, WORD

OFFICE_TYPES: Final = "[Content_Types].xml"
OWN_TYPE: Final = "mimetype"
_PLAIN: Final = {STRUCTURED[kind]: kind for kind in (WORD, POWERPOINT)}
"""The kind that the readers of an extension insist on. That of Excel's takes all of its kinds."""
_NAME_AT: Final = 30
"""Where the name of a ZIP's first member stands; its content follows, if it is not compressed."""

type Change = Callable[[Path, Path], None]


@contextmanager
def as_docling_knows(path: Path, kind: str) -> Generator[Path]:
    """The document itself, or a copy of it that differs in nothing but what docling's readers mind."""
    try:
        change = _change_for(path, kind)
        if change is None:
            yield path
            return
        with tempfile.TemporaryDirectory(prefix="package-") as folder:
            copy = Path(folder) / path.name
            change(path, copy)
            yield copy
    except DAMAGED as exc:
        raise damaged("its archive cannot be unpacked", exc) from exc


def _change_for(path: Path, kind: str) -> Change | None:
    if kind == EPUB:
        return None if _begins_with(path, f"{OWN_TYPE}{EPUB}".encode()) else _repack_book
    if kind.startswith(OPEN_DOCUMENT):
        plain = kind.removesuffix("-template").encode()
        return None if _read(path, OWN_TYPE) == plain else lambda old, new: _with_member(old, new, OWN_TYPE, plain)
    plain = _PLAIN.get(STRUCTURED.get(kind, ""), kind)
    types = _read(path, OFFICE_TYPES) if plain != kind else b""
    if not types:
        return None
    renamed = OFFICE_MAIN.sub(b'ContentType="%b.main+xml"' % plain.encode(), types, count=1)
    return lambda old, new: _with_member(old, new, OFFICE_TYPES, renamed)


def _read(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(name) if name in archive.NameToInfo else b""


def _with_member(path: Path, copy: Path, name: str, content: bytes) -> None:
    """Copy the archive with one member replaced.

    The new one is appended, and the directory written anew without the old one: nothing has to be packed again.
    """
    shutil.copyfile(path, copy)
    with zipfile.ZipFile(copy, "a") as archive:
        if (old := archive.NameToInfo.pop(name, None)) is not None:
            archive.filelist.remove(old)
        archive.writestr(name, content)


def _repack_book(path: Path, copy: Path) -> None:
    with zipfile.ZipFile(path) as book, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as into:
        into.writestr(OWN_TYPE, EPUB, zipfile.ZIP_STORED)
        for member in book.infolist():
            if member.filename == OWN_TYPE or member.is_dir():
                continue
            with book.open(member) as content, into.open(member.filename, "w", force_zip64=True) as target:
                shutil.copyfileobj(content, target)


def _begins_with(path: Path, first_member: bytes) -> bool:
    with path.open("rb") as file:
        file.seek(_NAME_AT)
        return file.read(len(first_member)) == first_member
