"""Which files are to be ingested: folders are walked under rules; what is left out is told, with the reason."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pathspec import GitIgnoreSpec

GITIGNORE = ".gitignore"
GENERATED: Final = frozenset(
    {
        *(".git", ".hg", ".svn", ".jj", "CVS"),
        *("node_modules", "bower_components", "__pypackages__", ".venv", ".tox", ".nox", ".eggs"),
        *("__pycache__", ".cache", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"),
        *(".gradle", ".terraform", ".next", ".nuxt", ".parcel-cache", ".yarn", ".pnpm-store"),
    }
)
"""Folders that programs made for themselves: histories, dependencies and caches."""
MARKS_OF_GENERATED: Final = ("pyvenv.cfg", "CACHEDIR.TAG")
"""Files by which a virtual environment and a cache are known, whatever their folder is called."""
BETWEEN: Final = "!"
"""Stands between the name of an archive and the path inside it, as Java has it."""
ZIP: Final = ".zip"
TARS: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2")
MBOX: Final = ".mbox"
_APPLE: Final = "__MACOSX"


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file to ingest. Its URI is its absolute path, so that it is the same wherever the command is called."""

    path: Path
    size: int
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """What its sidecar says of it."""
    content: Path | None = None
    """Where its bytes are, if not at its path: a file in an archive is unpacked elsewhere."""

    @property
    def bytes_at(self) -> Path:
        return self.content or self.path

    @property
    def uri(self) -> str:
        return self.path.as_posix()


class Why(StrEnum):
    """Why a file or folder is left out."""

    GENERATED = "dependencies or caches"
    IGNORED = "ignored by .gitignore"
    EXCLUDED = "excluded"
    HIDDEN = "hidden"
    EMPTY = "empty"
    KIND = "of kinds that cannot be read"
    LINK = "a link"
    SPECIAL = "no regular file"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file, or a folder with all that is in it, that the rules leave out."""

    path: Path
    why: Why


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What should be ingested and cannot be."""

    path: Path
    reason: str


type Finding = LocalFile | LeftOut | Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What to take of a folder. Patterns are written as in a .gitignore, and are relative to the folder."""

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    hidden: bool = False
    gitignore: bool = True
    follow_links: bool = False
    all_folders: bool = False
    """Whether to walk folders that hold dependencies, caches and the like, too."""


def walk(paths: Iterable[Path], rules: Rules) -> Iterator[Finding]:
    """All files of the folders, in order of their names, and the files that are named themselves.

    A file that is named is taken whatever the rules say; one that is found twice is told once.
    """
    told: set[Path] = set()
    for path in paths:
        # Not resolved: the URI must be the path that the user knows, also through a link.
        named = Path(os.path.abspath(path))  # noqa: PTH100  Path.resolve would follow links
        for finding in _Walk(named, rules).findings() if named.is_dir() else [_look_at(named)]:
            if finding.path not in told:
                told.add(finding.path)
                yield finding


def folders_of(paths: Iterable[Path]) -> list[Path]:
    """The folders among the paths, as they stand in URIs; one that lies below another is part of it."""
    folders = sorted({Path(os.path.abspath(path)) for path in paths if path.is_dir()})  # noqa: PTH100  as above
    return [each for each in folders if not any(each.is_relative_to(other) for other in folders if other != each)]


def gone_files(root: Path, rules: Rules, uris: Iterable[str]) -> Iterator[str | Unreadable]:
    """Which of the URIs below a folder name files that are gone, though the rules would have taken them.

    What cannot be looked at is told as unreadable: nobody knows whether it is gone.
    """
    looking = _Walk(root, rules)
    for uri in uris:
        path = Path(uri)
        if path.as_posix() != uri or ".." in path.parts:
            continue  # no walk gives a file such a URI, so something else has uploaded it
        try:
            is_gone = _is_gone(path, archive_of(path, root))
        except (FileNotFoundError, NotADirectoryError):
            is_gone = True
        except (OSError, ValueError) as error:
            yield Unreadable(path, reason_of(error) if isinstance(error, OSError) else str(error))
            continue
        if is_gone and looking.is_looked_for(path):
            yield uri


def _is_gone(path: Path, archive: Path | None) -> bool:
    """Whether there is something else in place of the file: a folder, or an archive in which it was not found.

    FileNotFoundError: there is nothing in its place.
    """
    if archive is None:
        return stat.S_ISDIR(path.lstat().st_mode)
    there = archive.stat()
    # An empty file is none of the archives that were looked into: it may be one whose copy has only begun.
    return there.st_size > 0 or stat.S_ISDIR(there.st_mode)


def archive_of(path: Path, root: Path) -> Path | None:
    """The archive that a path leads into, if it names a file in an archive below the root."""
    for inner in reversed(path.relative_to(root).parents[:-1]):
        if inner.name.endswith(BETWEEN) and is_name_of_archive(inner.name.removesuffix(BETWEEN)):
            return root / inner.with_name(inner.name.removesuffix(BETWEEN))
    return None


def is_name_of_archive(name: str) -> bool:
    return name.lower().endswith((ZIP, *TARS, MBOX))


def why_not_inside(path: PurePosixPath, rules: Rules) -> Why | None:
    """Why a file in an archive is left out, by its path in there; None if it is taken."""
    if not rules.all_folders and GENERATED.intersection(path.parts[:-1]):
        return Why.GENERATED
    if not rules.hidden and any(part.startswith(".") or part == _APPLE for part in path.parts):
        return Why.HIDDEN
    return Why.EXCLUDED if GitIgnoreSpec.from_lines(rules.exclude).match_file(path.as_posix()) else None


def fingerprint(path: Path) -> str:
    """The hash by which a document is known."""
    with path.open("rb") as file:
        return f"sha256-{hashlib.file_digest(file, 'sha256').hexdigest()}"


def encodable(path: Path) -> str:
    """A path that any text can hold: bytes of a name that are not UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def printable(path: Path) -> str:
    """A path that any terminal and any file can take, relative to the working directory where it lies below it."""
    return encodable(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


class _Walk:
    """The walk through one folder."""

    def __init__(self, root: Path, rules: Rules) -> None:
        self._root = root
        self._rules = rules
        self._include = GitIgnoreSpec.from_lines(rules.include)
        self._exclude = GitIgnoreSpec.from_lines(rules.exclude)
        self._entered: set[tuple[int, int]] = set()

    def findings(self) -> Iterator[Finding]:
        # A stack and not recursion: folders may be nested deeper than Python likes.
        folders = [(self._root, self._ignores_above())]
        while folders:
            folder, ignores = folders.pop()
            inner: list[tuple[Path, _Ignores]] = []
            for finding in self._findings_in(folder, ignores):
                if isinstance(finding, _Folder):
                    inner.append((finding.path, finding.ignores))
                else:
                    yield finding
            folders.extend(reversed(inner))

    def _findings_in(self, folder: Path, ignores: _Ignores) -> Iterator[Finding | _Folder]:
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            yield Unreadable(folder, reason_of(error))
            return
        if self._rules.gitignore:
            ignores = ignores.within(folder)
        for entry in entries:
            path = Path(entry.path)
            try:
                why = self._why_not(entry, path, ignores)
                is_folder = entry.is_dir()
            except OSError as error:
                yield Unreadable(path, reason_of(error))
                continue
            if why is not None:
                yield LeftOut(path, why)
            elif not is_folder:
                yield _look_at(path)
            elif self._is_new(entry):
                yield _Folder(path, ignores)

    def is_looked_for(self, path: Path) -> bool:
        """Whether the walk would have taken a file of this path, which lies below the root, if it were there."""
        if archive := archive_of(path, self._root):
            is_link = not self._rules.follow_links and archive.is_symlink()
            inside = path.relative_to(archive.with_name(archive.name + BETWEEN))
            is_taken = why_not_inside(PurePosixPath(inside), self._rules) is None
            return is_taken and not is_link and self.is_looked_for(archive)
        folder, ignores = self._root, self._ignores_above()
        for part in path.relative_to(self._root).parts:
            inner, is_folder = folder / part, folder / part != path
            if self._rules.gitignore:
                ignores = ignores.within(folder)
            is_passed_by = is_folder and not self._rules.follow_links and inner.is_symlink()
            if is_passed_by or self._why_not_by_name(inner, ignores, is_folder=is_folder):
                return False
            folder = inner
        return True

    def _why_not(self, entry: os.DirEntry[str], path: Path, ignores: _Ignores) -> Why | None:
        why = self._why_not_by_name(path, ignores, is_folder=entry.is_dir())
        # The name comes first: a hidden link is told as what it always is.
        if why is not Why.HIDDEN and entry.is_symlink() and not self._rules.follow_links:
            return Why.LINK
        is_marked = why is None and not self._rules.all_folders and entry.is_dir() and _is_marked_as_generated(path)
        return Why.GENERATED if is_marked else why

    def _why_not_by_name(self, path: Path, ignores: _Ignores, *, is_folder: bool) -> Why | None:
        if is_folder and path.name in GENERATED and not self._rules.all_folders:
            return Why.GENERATED
        if path.name.startswith(".") and not self._rules.hidden:
            return Why.HIDDEN
        if ignores.cover(path, is_folder=is_folder):
            return Why.IGNORED
        spelled = _spelled(path, self._root, is_folder=is_folder)
        if self._exclude.match_file(spelled):
            return Why.EXCLUDED
        if self._rules.include and not is_folder and not self._include.match_file(spelled):
            return Why.EXCLUDED
        return None

    def _is_new(self, entry: os.DirEntry[str]) -> bool:
        """Whether this folder has not been entered yet: links can lead in circles."""
        if not self._rules.follow_links:
            return True
        status = entry.stat()
        key = (status.st_dev, status.st_ino)
        is_new = key not in self._entered
        self._entered.add(key)
        return is_new

    def _ignores_above(self) -> _Ignores:
        """The rules of the folders above, up to the top of the repository that the root lies in, as git has it."""
        none = _Ignores()
        if not self._rules.gitignore:
            return none
        above = list(self._root.parents)
        top = next((number for number, folder in enumerate(above) if (folder / ".git").exists()), None)
        if top is None or (self._root / ".git").exists():
            return none
        ignores = none
        for folder in reversed(above[: top + 1]):
            ignores = ignores.within(folder)
        return ignores


@dataclass(frozen=True, slots=True)
class _Ignores:
    """The .gitignore files that apply in a folder, the innermost last."""

    specs: tuple[tuple[Path, GitIgnoreSpec], ...] = ()

    def within(self, folder: Path) -> _Ignores:
        """What applies in a folder below, which may have rules of its own."""
        try:
            lines = (folder / GITIGNORE).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:  # there is no .gitignore, or it cannot be read: then it has no rules
            return self
        return _Ignores((*self.specs, (folder, GitIgnoreSpec.from_lines(lines))))

    def cover(self, path: Path, *, is_folder: bool) -> bool:
        """Whether the innermost file that says anything about the path says that it is ignored."""
        for folder, spec in reversed(self.specs):
            verdict = spec.check_file(_spelled(path, folder, is_folder=is_folder)).include
            if verdict is not None:
                return verdict
        return False


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path
    ignores: _Ignores


def _is_marked_as_generated(folder: Path) -> bool:
    return any((folder / mark).is_file() for mark in MARKS_OF_GENERATED)


def _spelled(path: Path, base: Path, *, is_folder: bool) -> str:
    return path.relative_to(base).as_posix() + ("/" if is_folder else "")


def _look_at(path: Path) -> Finding:
    try:
        path.as_posix().encode()
        status = path.stat()
    except UnicodeEncodeError:
        return Unreadable(path, "its name is not valid UTF-8; rename it")
    except OSError as error:
        return Unreadable(path, reason_of(error))
    if not stat.S_ISREG(status.st_mode):
        return LeftOut(path, Why.SPECIAL)
    return LocalFile(path, status.st_size) if status.st_size else LeftOut(path, Why.EMPTY)


def reason_of(error: OSError) -> str:
    """Why the system refused, as a sentence's part."""
    return (error.strerror or str(error)).lower()
