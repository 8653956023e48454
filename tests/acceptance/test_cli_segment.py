"""`si-cli segment`: files into articles, as somebody calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from soliplex.ingester.lib.workflow import parsing
from tests.support.command_line import CommandLine
from tests.support.harmful_parsers import METHOD
from tests.support.segmenting import THREE


@pytest.fixture(autouse=True)
def quick_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_PARSE", METHOD)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "harbours.md").write_bytes(THREE)
    (folder / "harbours.txt").write_text("A harbour is a place where ships are safe from the sea.\n")
    (folder / "things.zip").write_bytes(b"PK\x05\x06" + b"\x00" * 18)
    return folder


def test_articles_are_printed_and_what_cannot_be_read_is_told(commands: CommandLine, folder: Path) -> None:
    answer = commands("si-cli", "segment", str(folder), "--article-size", "small", "--tag", "ports", "--tag", "cooking")
    assert answer.code == 1
    assert "✗ things.zip: uploadfile: application/zip is no kind of document that can be read" in answer.err
    assert "harbours.txt: 1 article" in answer.out
    assert "en · ports" in answer.out
    for town in ("Genoa", "Marseille", "Rotterdam"):
        assert f"The harbour of {town} is old" in answer.out

    outline = commands("si-cli", "segment", str(folder / "harbours.txt"), "--outline")
    assert outline.code == 0
    assert "safe from the sea" not in outline.out.split("\n", 3)[-1]


def test_json_tells_all_of_the_job_and_its_articles_and_nothing_is_kept_if_so_asked(
    commands: CommandLine, folder: Path
) -> None:
    (document,) = commands.json("si-cli", "segment", str(folder / "harbours.md"), "--json", "--no-keep")
    assert (document["file"], document["job"]["status"]) == (str(folder / "harbours.md"), "COMPLETED")
    assert "".join(each["body"] for each in document["segments"]).split() == THREE.decode().split()
    assert commands.json("si-cli", "status", "--json") == []


def test_files_are_written_below_a_folder_for_each_document_but_never_among_others(
    commands: CommandLine, folder: Path, tmp_path: Path
) -> None:
    into = tmp_path / "articles"
    (folder / "things.zip").unlink()
    answer = commands("si-cli", "segment", str(folder), "--markdown", str(into))
    assert answer.code == 0, answer.err
    assert {path.name for path in into.iterdir()} == {"harbours", "harbours.txt"}
    (text,) = (into / "harbours.txt").iterdir()
    assert text.name.startswith("001-")
    assert text.read_text().startswith('---\ntitle: "')
    again = commands("si-cli", "segment", str(folder), "--markdown", str(into))
    assert (again.code, "there are files in" in again.err) == (2, True)
    assert len(commands.json("si-cli", "status", "--json")) == 2, "nothing was begun"


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--maxsize", "0", "maxsize"),
        ("--article-size", "tiny", "article_size"),
        ("--callback", "ftp://x", "callbackurl"),
    ],
)
def test_a_wrong_option_ends_the_command_with_its_name(
    commands: CommandLine, folder: Path, option: str, value: str, named: str
) -> None:
    answer = commands("si-cli", "segment", str(folder / "harbours.txt"), option, value)
    assert answer.code == 2
    assert answer.err.startswith(f"error: {named}: ")
