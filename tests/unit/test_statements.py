"""SQL in files: names, dialects, fragments and parameters."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib.models.statements import Call, Json, Statements, load_statements
from soliplex.ingester.lib.models.transactions import single
from soliplex.ingester.lib.wf.sql import SQL


def folder(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        kind, _, file = name.partition("_")
        (tmp_path / kind).mkdir(exist_ok=True)
        (tmp_path / kind / f"{file}.sql").write_text(text, "utf-8")
    return tmp_path


def load(tmp_path: Path, **files: str) -> Statements:
    return load_statements(folder(tmp_path, **files))


def test_a_portable_statement_serves_both_databases(tmp_path: Path) -> None:
    statement = load(tmp_path, portable_one="-- :name pick\nSELECT :a, :b, :a;\n").pick
    assert statement.sqlite == "SELECT :a, :b, :a"
    assert statement.postgres == "SELECT $1, $2, $1"
    assert statement.postgres_order == ("a", "b")


def test_a_dialect_overrides_by_the_same_name(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        portable_one="-- :name pick\nSELECT 1;\n-- :name other\nSELECT 2;",
        postgres_one="-- :name pick\nSELECT 1 FOR UPDATE;",
        sqlite_two="-- :name other\nSELECT 22;",
    )
    assert (found.pick.sqlite, found.pick.postgres) == ("SELECT 1", "SELECT 1 FOR UPDATE")
    assert (found.other.sqlite, found.other.postgres) == ("SELECT 22", "SELECT 2")
    assert [statement.name for statement in found] == ["other", "pick"]


def test_fragments_are_filled_in_per_dialect_and_within_one_another(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        portable_one="-- :fragment ready\n{open} AND n = 0\n-- :fragment open\nis_open\n-- :name pick\nSELECT {ready};",
        postgres_one="-- :fragment open\nis_open = true\n",
    )
    assert found.pick.sqlite == "SELECT is_open AND n = 0"
    assert found.pick.postgres == "SELECT is_open = true AND n = 0"


def test_comments_are_left_out(tmp_path: Path) -> None:
    statement = load(tmp_path, portable_one="-- above\n-- :name pick\n-- why :not\nSELECT :a -- :b\n;").pick
    assert statement.postgres_order == ("a",)
    assert "--" not in statement.sqlite


@pytest.mark.parametrize(
    ("text", "expected", "order"),
    [
        ("SELECT ':a' || :b", "SELECT ':a' || $1", ("b",)),
        ("SELECT 'it''s :a', :b", "SELECT 'it''s :a', $1", ("b",)),
        ("SELECT x::text, :b", "SELECT x::text, $1", ("b",)),
        ("SELECT CAST(:b AS text)", "SELECT CAST($1 AS text)", ("b",)),
        ("SELECT a[1:2], :b_2", "SELECT a[1:2], $1", ("b_2",)),
        ("SELECT data ->> 'k', :b", "SELECT data ->> 'k', $1", ("b",)),
    ],
)
def test_a_parameter_is_a_word_after_a_colon_outside_of_texts(
    tmp_path: Path, text: str, expected: str, order: tuple[str, ...]
) -> None:
    statement = load(tmp_path, portable_one=f"-- :name pick\n{text};").pick
    assert (statement.postgres, statement.postgres_order) == (expected, order)


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"b\.sql: name 'pick' stands twice in portable/"):
        load(tmp_path, portable_a="-- :name pick\nSELECT 1;", portable_b="-- :name pick\nSELECT 2;")


def test_a_name_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match="no statement named 'pikc'"):
        _ = load(tmp_path, portable_one="-- :name pick\nSELECT 1;").pikc


def test_a_statement_is_called_with_its_parameters() -> None:
    call = SQL.run_exists(run_id=3)
    assert call == Call(SQL.run_exists, {"run_id": 3})


def test_the_script_of_one_statement_gives_its_rows() -> None:
    script: Generator[Call, Any, Any] = single(SQL.run_exists(run_id=3))
    assert next(script).statement.name == "run_exists"
    with pytest.raises(StopIteration) as done:
        script.send(["row"])
    assert done.value.value == ["row"]


def test_json_is_written_without_blanks_and_in_the_letters_it_was_given() -> None:
    assert Json({"a": [1, None], "b": "Größe"}).text() == '{"a":[1,null],"b":"Größe"}'


def test_every_statement_of_the_engine_is_complete_on_both_databases() -> None:
    names = [statement.name for statement in SQL]
    assert len(names) > 50
    for statement in SQL:
        for text in (statement.sqlite, statement.postgres):
            assert text
            assert ";" not in text, statement.name
            assert "{" not in text.replace("'{}'", ""), statement.name
        assert ":now" not in statement.postgres


def test_no_statement_of_the_engine_reads_the_databases_clock() -> None:
    """Time always comes in as a parameter: the worker's clock decides, and a test's."""
    for statement in SQL:
        for text in (statement.sqlite, statement.postgres):
            assert "now()" not in text.lower(), statement.name
            assert "current_timestamp" not in text.lower(), statement.name


def test_every_statement_of_the_engine_is_used() -> None:
    source = Path(__file__).parents[2] / "src"
    code = "\n".join(path.read_text("utf-8") for path in source.rglob("*.py"))
    assert [statement.name for statement in SQL if f"SQL.{statement.name}" not in code] == []
