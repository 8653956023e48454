from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from soliplex.ingester.installation.local_files import (
    LeftOut,
    LocalFile,
    Rules,
    Unreadable,
    Why,
    fingerprint,
    folders_of,
    gone_files,
    printable,
    walk,
)

NO_RULES = Rules()


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}")


def taken(root: Path, rules: Rules = NO_RULES, *, paths: Iterable[Path] | None = None) -> list[str]:
    return [
        finding.path.relative_to(root).as_posix()
        for finding in walk(paths or [root], rules)
        if isinstance(finding, LocalFile)
    ]


def left_out(root: Path, rules: Rules = NO_RULES) -> dict[str, Why]:
    findings = [finding for finding in walk([root], rules) if isinstance(finding, LeftOut)]
    return {finding.path.relative_to(root).as_posix(): finding.why for finding in findings}


def test_files_come_in_order_with_their_size_and_absolute_path(tmp_path: Path) -> None:
    make(tmp_path, "b.md", "a.md", "sub/d.md", "sub/c.md", "sub/deeper/e.md")
    assert taken(tmp_path) == ["a.md", "b.md", "sub/c.md", "sub/d.md", "sub/deeper/e.md"]
    first = next(iter(walk([tmp_path], NO_RULES)))
    assert first == LocalFile(tmp_path / "a.md", len("content of a.md"))
    assert isinstance(first, LocalFile)
    assert first.uri == f"{tmp_path.as_posix()}/a.md"


def test_the_uri_is_the_same_wherever_the_command_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "docs/a.md")
    monkeypatch.chdir(tmp_path)
    relative = list(walk([Path("docs")], NO_RULES))
    monkeypatch.chdir(tmp_path / "docs")
    assert list(walk([Path()], NO_RULES)) == list(walk([Path("../docs")], NO_RULES)) == relative


def test_hidden_empty_and_special_files_are_left_out_with_the_reason(tmp_path: Path) -> None:
    make(tmp_path, "a.md", ".hidden", ".git/config")
    (tmp_path / "empty.md").touch()
    os.mkfifo(tmp_path / "pipe")
    assert taken(tmp_path) == ["a.md"]
    expected = {".git": Why.GENERATED, ".hidden": Why.HIDDEN, "empty.md": Why.EMPTY, "pipe": Why.SPECIAL}
    assert left_out(tmp_path) == expected
    assert taken(tmp_path, Rules(hidden=True)) == [".hidden", "a.md"]
    assert taken(tmp_path, Rules(hidden=True, all_folders=True)) == [".hidden", "a.md", ".git/config"]


def test_folders_that_programs_made_for_themselves_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "node_modules/b.md", "sub/__pycache__/c.md", "env/pyvenv.cfg", "env/d.md", "c/CACHEDIR.TAG")
    assert taken(tmp_path) == ["a.md"]
    folders = ("node_modules", "sub/__pycache__", "env", "c")
    assert left_out(tmp_path) == dict.fromkeys(folders, Why.GENERATED)
    assert "node_modules/b.md" in taken(tmp_path, Rules(all_folders=True))
    assert taken(tmp_path / "node_modules") == ["b.md"]  # who names it wants it
    make(tmp_path, "files/node_modules")
    assert "files/node_modules" in taken(tmp_path)  # a file


def test_gitignore_rules_hold_and_inner_ones_win(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "a.log", "build/x.md", "sub/a.log", "sub/keep.log", "sub/build/y.md", "deep/er/a.log")
    (tmp_path / ".gitignore").write_text("# made\n*.log\n/build/\n")
    (tmp_path / "sub" / ".gitignore").write_text("!keep.log\n")
    assert taken(tmp_path) == ["a.md", "sub/keep.log", "sub/build/y.md"]
    assert left_out(tmp_path)["build"] is Why.IGNORED
    assert "a.log" in taken(tmp_path, Rules(gitignore=False))


def test_gitignore_rules_of_the_repository_above_hold(tmp_path: Path) -> None:
    make(tmp_path, "repo/.git/HEAD", "repo/docs/a.md", "repo/docs/a.tmp", "repo/docs/private/b.md")
    (tmp_path / ".gitignore").write_text("*.md\n")  # outside of the repository: none of its business
    (tmp_path / "repo" / ".gitignore").write_text("*.tmp\ndocs/private/\n")
    assert taken(tmp_path / "repo" / "docs") == ["a.md"]


def test_patterns_include_and_exclude(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.txt", "c.pdf", "drafts/d.md", "sub/drafts/e.md", "sub/f.md")
    assert taken(tmp_path, Rules(include=["*.md", "*.txt"])) == [
        "a.md",
        "b.txt",
        "drafts/d.md",
        "sub/f.md",
        "sub/drafts/e.md",
    ]
    assert taken(tmp_path, Rules(include=["*.md"], exclude=["drafts/"])) == ["a.md", "sub/f.md"]
    assert taken(tmp_path, Rules(exclude=["/drafts/", "!b.txt", "*.pdf"])) == [
        "a.md",
        "b.txt",
        "sub/f.md",
        "sub/drafts/e.md",
    ]
    assert taken(tmp_path, Rules(include=["sub/**"])) == ["sub/f.md", "sub/drafts/e.md"]


def test_a_file_that_is_named_is_taken_whatever_the_rules_say(tmp_path: Path) -> None:
    make(tmp_path, ".hidden.md")
    (tmp_path / ".gitignore").write_text("*.md\n")
    rules = Rules(exclude=["*"])
    assert taken(tmp_path, rules, paths=[tmp_path / ".hidden.md"]) == [".hidden.md"]


def test_what_is_found_twice_is_told_once(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "sub/b.md")
    assert taken(tmp_path, paths=[tmp_path / "sub", tmp_path, tmp_path / "a.md"]) == ["sub/b.md", "a.md"]


def test_links_are_followed_only_on_demand_and_never_in_circles(tmp_path: Path) -> None:
    make(tmp_path, "docs/a.md", "other/b.md")
    (tmp_path / "docs" / "link.md").symlink_to(tmp_path / "other" / "b.md")
    (tmp_path / "docs" / "other").symlink_to(tmp_path / "other")
    (tmp_path / "other" / "up").symlink_to(tmp_path / "docs")
    docs = tmp_path / "docs"
    assert taken(docs) == ["a.md"]
    assert left_out(docs) == {"link.md": Why.LINK, "other": Why.LINK}
    followed = taken(docs, Rules(follow_links=True))
    assert followed[:3] == ["a.md", "link.md", "other/b.md"]
    assert len(followed) < 8


def test_a_link_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    (finding,) = walk([tmp_path], Rules(follow_links=True))
    assert finding == Unreadable(tmp_path / "gone", "no such file or directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o000)
    (finding,) = walk([tmp_path], NO_RULES)
    assert finding == Unreadable(tmp_path / "closed", "permission denied")


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_a_name_that_is_not_utf8_is_told_and_can_be_printed(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.md")).write_text("x")
    (finding,) = walk([tmp_path], NO_RULES)
    assert isinstance(finding, Unreadable)
    assert finding.reason == "its name is not valid UTF-8; rename it"
    assert printable(finding.path).endswith("caf�.md")


def test_a_fingerprint_is_the_hash_that_documents_are_known_by(tmp_path: Path) -> None:
    make(tmp_path, "a.md")
    (tmp_path / "a.md").write_text("hello")
    assert fingerprint(tmp_path / "a.md") == "sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


def gone(root: Path, *names: str, rules: Rules = NO_RULES) -> list[str]:
    found = gone_files(root, rules, [f"{root.as_posix()}/{name}" for name in names])
    return [each.removeprefix(f"{root.as_posix()}/") for each in found if isinstance(each, str)]


def test_a_known_file_is_gone_if_it_was_looked_for_and_is_not_there(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "sub/b.md", "was-a-file/c.md", "file")
    names = ("a.md", "sub/b.md", "sub/gone.md", "no/such/folder.md", "was-a-file", "file/below.md")
    assert gone(tmp_path, *names) == ["sub/gone.md", "no/such/folder.md", "was-a-file", "file/below.md"]


def test_what_the_rules_leave_out_is_not_gone(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "real/x.md")
    (tmp_path / ".gitignore").write_text("*.log\n/made/\n")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    names = ("b.md", "b.txt", "drafts/b.md", ".hidden/b.md", "b.log", "made/b.md", "link/b.md")
    assert gone(tmp_path, *names, rules=Rules(include=["*.md"], exclude=["drafts/"])) == ["b.md"]
    everything = Rules(hidden=True, gitignore=False, follow_links=True)
    assert gone(tmp_path, *names, rules=everything) == list(names)


def test_a_file_in_an_archive_is_gone_if_the_archive_was_looked_into(tmp_path: Path) -> None:
    make(tmp_path, "a.zip", "copied.tar", "real/c.zip", "folder!/d.md", "was.zip/e.md")
    (tmp_path / "copied.tar").write_bytes(b"")  # its copying may just have begun
    (tmp_path / "link.zip").symlink_to(tmp_path / "real" / "c.zip")
    names = (
        "a.zip!/x.md",
        "no.mbox!/000001.eml",
        "copied.tar!/x.md",
        "was.zip!/x.md",
        "link.zip!/x.md",
        "folder!/x.md",
    )
    assert gone(tmp_path, *names) == ["a.zip!/x.md", "no.mbox!/000001.eml", "was.zip!/x.md", "folder!/x.md"]
    assert gone(tmp_path, "link.zip!/x.md", rules=Rules(follow_links=True)) == ["link.zip!/x.md"]


@pytest.mark.parametrize("rules", [Rules(exclude=["*.zip"]), Rules(include=["*.md"]), Rules()])
def test_a_file_in_an_archive_that_the_rules_leave_out_is_not_gone(tmp_path: Path, rules: Rules) -> None:
    make(tmp_path, "a.zip", "sub/.b.tar", "made/c.zip")
    (tmp_path / ".gitignore").write_text("a.zip\n/made/\n")
    names = ("a.zip!/x.md", "a.zip!/deep/x.md", "gone/a.zip!/x.md", "sub/.b.tar!/x.md", "made/c.zip!/x.md")
    assert gone(tmp_path, *names, rules=rules) == []


def test_what_the_rules_leave_out_of_an_archive_is_not_gone(tmp_path: Path) -> None:
    make(tmp_path, "a.zip")
    names = ("a.zip!/drafts/x.md", "a.zip!/.hidden/x.md", "a.zip!/node_modules/x.js", "a.zip!/x.md")
    assert gone(tmp_path, *names, rules=Rules(exclude=["drafts/"])) == ["a.zip!/x.md"]
    assert gone(tmp_path, *names, rules=Rules(hidden=True, all_folders=True)) == list(names)


def test_what_no_walk_would_name_is_nobodys_to_miss(tmp_path: Path) -> None:
    assert gone(tmp_path, "../elsewhere.md", "sub//b.md", "./c.md") == []


def test_what_cannot_be_looked_at_is_not_gone(tmp_path: Path) -> None:
    (found,) = gone_files(tmp_path, NO_RULES, [f"{tmp_path.as_posix()}/{'n' * 300}"])
    assert isinstance(found, Unreadable)
    assert found.reason == "file name too long"


def test_only_folders_are_looked_through_and_each_once(tmp_path: Path) -> None:
    make(tmp_path, "docs/a.md", "docs/sub/b.md", "docs2/c.md")
    paths = [tmp_path / "docs" / "sub", tmp_path / "docs", tmp_path / "docs2", tmp_path / "docs" / "a.md"]
    assert folders_of(paths) == [tmp_path / "docs", tmp_path / "docs2"]
