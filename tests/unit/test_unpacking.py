"""Archives as folders of documents."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from soliplex.ingester.installation import unpacking
from soliplex.ingester.installation.local_files import Finding, LeftOut, LocalFile, Rules, Unreadable, Why
from soliplex.ingester.installation.unpacking import is_archive, unpacked
from soliplex.ingester.lib.validation import archives
from tests.support.files import docx, zipped

FILES = {"a.txt": b"apples", "deep/er/b.md": b"# Bread", "none.txt": b"", ".hidden": b"x", "node_modules/c.js": b"x"}
WHY = {"none.txt": Why.EMPTY, ".hidden": Why.HIDDEN, "node_modules/c.js": Why.GENERATED}


def tarred(files: Mapping[str, bytes], *more: tarfile.TarInfo) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
        for info in more:
            archive.addfile(info)
    return content.getvalue()


def special(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info


def look(tmp_path: Path, name: str, content: bytes, rules: Rules | None = None) -> dict[str, Finding]:
    archive = tmp_path / name
    archive.write_bytes(content)
    assert is_archive(archive, name)
    (tmp_path / "into").mkdir()
    found = unpacked(archive, tmp_path / "into", rules or Rules())
    return {each.path.relative_to(tmp_path).as_posix(): each for each in found}


def refusal(tmp_path: Path, name: str, content: bytes) -> str:
    """The one reason why nothing of the archive is taken; and nothing of it is left behind."""
    (only,) = look(tmp_path, name, content).values()
    assert isinstance(only, Unreadable)
    assert only.path == tmp_path / name
    assert list((tmp_path / "into").iterdir()) == []
    return only.reason


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "A.TGZ"])
def test_what_is_in_an_archive_is_a_file_of_its_own(tmp_path: Path, name: str) -> None:
    content = zipped(FILES) if name == "a.zip" else tarred(FILES, special("link", tarfile.SYMTYPE))
    found = look(tmp_path, name, gzip.compress(content) if name.lower().endswith("gz") else content)
    taken = {path: each for path, each in found.items() if isinstance(each, LocalFile)}
    assert {path: each.bytes_at.read_bytes() for path, each in taken.items()} == {
        f"{name}!/a.txt": b"apples",
        f"{name}!/deep/er/b.md": b"# Bread",
    }
    assert taken[f"{name}!/a.txt"].uri == (tmp_path / f"{name}!/a.txt").as_posix()
    left = {path: each.why for path, each in found.items() if isinstance(each, LeftOut)}
    assert left == {f"{name}!/{path}": why for path, why in WHY.items()} | (
        {} if name == "a.zip" else {f"{name}!/link": Why.LINK}
    )


def test_rules_hold_inside_of_archives(tmp_path: Path) -> None:
    rules = Rules(exclude=["*.md"], hidden=True, all_folders=True)
    found = look(tmp_path, "a.zip", zipped(FILES), rules)
    assert {path for path, each in found.items() if isinstance(each, LocalFile)} == {
        *("a.zip!/a.txt", "a.zip!/.hidden", "a.zip!/node_modules/c.js")
    }


def test_a_mailbox_is_its_messages(tmp_path: Path) -> None:
    first, second = "Subject: one\n\nHello\n>From here\nFrom there\n\n", "Subject: two\n\nBye\n"
    mails = f"From ada Thu Jan  1\n{first}From alan Thu Jan  2\n{second}"
    found = look(tmp_path, "a.mbox", mails.encode())
    texts = [each.bytes_at.read_text() for each in found.values() if isinstance(each, LocalFile)]
    assert list(found) == ["a.mbox!/000001.eml", "a.mbox!/000002.eml"]
    assert texts == [first.replace(">From", "From"), second]


@pytest.mark.parametrize("name", ["../up.txt", "/etc/passwd", "a/../../b", "C:\\b.txt", "..\\up.txt"])
def test_an_archive_with_a_file_outside_of_it_is_refused_whole(tmp_path: Path, name: str) -> None:
    assert "lies outside" in refusal(tmp_path, "a.tar", tarred({"fine.txt": b"fine", name: b"x"}))


def test_names_that_are_no_names_are_refused(tmp_path: Path) -> None:
    assert "cannot be one; rename it" in refusal(tmp_path, "a.tar", tarred({"a\x1b[2Jb.txt": b"x"}))


def test_links_and_devices_are_left_out(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    (link,) = look(tmp_path, "a.zip", content.getvalue()).values()
    assert isinstance(link, LeftOut)
    assert link.why is Why.LINK
    (tmp_path / "tar").mkdir()
    others = [special("hard", tarfile.LNKTYPE), special("pipe", tarfile.FIFOTYPE), special("disk", tarfile.BLKTYPE)]
    found = look(tmp_path / "tar", "a.tar", tarred({}, *others)).values()
    assert [each.why for each in found if isinstance(each, LeftOut)] == [Why.LINK, Why.SPECIAL, Why.SPECIAL]


def test_an_archive_inside_an_archive_is_told_and_an_office_document_is_taken(tmp_path: Path) -> None:
    found = look(tmp_path, "a.zip", zipped({"in.zip": zipped({"a.txt": "a"}), "b.docx": docx("text")}))
    inner, document = found["a.zip!/in.zip"], found["a.zip!/b.docx"]
    assert isinstance(inner, Unreadable)
    assert "an archive inside an archive; unpack" in inner.reason
    assert isinstance(document, LocalFile)
    (tmp_path / "b.docx").write_bytes(docx("text"))
    assert not is_archive(tmp_path / "b.docx", "b.docx")
    assert not is_archive(tmp_path / "b.docx", "b.zip")


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_bombs_are_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = {"zeros.txt": bytes(64 << 20)}
    content = zipped(zeros) if name == "a.zip" else gzip.compress(tarred(zeros))
    assert "would unpack to" in refusal(tmp_path, name, content)


def test_an_archive_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "Bounds", lambda: archives.Bounds(members=3))
    assert "more than 3 files" in refusal(tmp_path, "a.tar", tarred({f"{number}.txt": b"x" for number in range(4)}))


def test_a_name_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    long = tarred({"x" * (20 << 20): b"x"})
    assert "a name in it is longer than any can be" in refusal(tmp_path, "a.tar.gz", gzip.compress(long))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.zip", zipped(FILES)[:-30]),
        ("a.zip", bytes(range(256)) * 40),
        ("a.tar", tarred(FILES)[:1_200]),
        ("a.tar", b"no tar at all" * 100),
        ("a.tar.gz", gzip.compress(tarred(FILES))[:-20]),
        ("a.tgz", b"no gzip"),
        ("a.tbz2", b"no bzip"),
        ("a.mbox", b"no mailbox"),
    ],
)
def test_what_cannot_be_unpacked_gives_nothing_but_the_reason(tmp_path: Path, name: str, content: bytes) -> None:
    assert refusal(tmp_path, name, content)


def test_an_empty_archive_is_told(tmp_path: Path) -> None:
    (empty,) = look(tmp_path, "a.zip", zipped({})).values()
    assert isinstance(empty, LeftOut)
    assert empty.why is Why.EMPTY
