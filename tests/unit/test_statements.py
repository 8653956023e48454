"""SQL in files: names, dialects, fragments and parameters."""

from __future__ import annotations

import ast
import asyncio
import sqlite3
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib.models import RunStep, WorkflowRun
from soliplex.ingester.lib.models.statements import (
    Call,
    Json,
    StatementError,
    Statements,
    WrongDatabaseError,
    load_statements,
)
from soliplex.ingester.lib.models.transactions import ThreadLink, single
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.sql.columns import NOT_READ_BACK, RUN_COLUMNS, STEP_COLUMNS


def folder(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        kind, _, file = name.partition("_")
        (tmp_path / kind).mkdir(exist_ok=True)
        (tmp_path / kind / f"{file}.sql").write_text(text, "utf-8")
    return tmp_path


def load(tmp_path: Path, **files: str) -> Statements:
    return load_statements(folder(tmp_path, **files))


def test_a_shared_statement_serves_both_databases(tmp_path: Path) -> None:
    statement = load(tmp_path, shared_one="-- :name pick\nSELECT :a, :b, :a;\n").pick
    assert statement.sqlite == "SELECT :a, :b, :a"
    assert statement.postgres == "SELECT $1, $2, $1"
    assert statement.postgres_order == ("a", "b")


def test_a_statement_may_have_a_text_of_its_own_for_each_database(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        shared_one="-- :name other\nSELECT 2;",
        sqlite_one="-- One writer.\n-- :name pick\nSELECT 1;\n",
        postgres_one="-- :name pick\n-- Many writers.\nSELECT 1 FOR UPDATE;",
    )
    assert (found.pick.sqlite, found.pick.postgres) == ("SELECT 1", "SELECT 1 FOR UPDATE")
    assert [statement.name for statement in found] == ["other", "pick"]


def test_a_statement_of_one_database_is_named_with_it_and_refuses_the_other(tmp_path: Path) -> None:
    found = load(tmp_path, postgres_one="-- In one go.\n-- :name pick\nSELECT :a;")
    assert found.postgres.pick.postgres == "SELECT $1"
    with pytest.raises(AttributeError, match=r"'pick' stands in postgres/ alone: name it SQL\.postgres\.pick"):
        _ = found.pick
    with pytest.raises(AttributeError, match=r"no statement named 'pick' in .*sqlite"):
        _ = found.sqlite.pick
    link = ThreadLink(sqlite3.connect(":memory:", check_same_thread=False), ThreadPoolExecutor(1))
    with pytest.raises(WrongDatabaseError, match="no statement 'pick' for SQLite"):
        asyncio.run(link.transact(single(found.postgres.pick(a=1))))
    asyncio.run(link.close())


def test_fragments_are_filled_in_per_dialect_and_within_one_another(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        shared_one="-- :fragment ready\n{open} AND n = 0\n-- :name pick\nSELECT {ready};",
        sqlite_one="-- No booleans.\n-- :fragment open\nis_open\n",
        postgres_one="-- Booleans.\n-- :fragment open\nis_open = true\n",
    )
    assert found.pick.sqlite == "SELECT is_open AND n = 0"
    assert found.pick.postgres == "SELECT is_open = true AND n = 0"


def test_a_caller_may_bring_fragments_that_it_has_made(tmp_path: Path) -> None:
    files = folder(tmp_path, shared_one="-- :name pick\nSELECT {columns};")
    assert load_statements(files, made={"columns": "a, b"}).pick.sqlite == "SELECT a, b"
    with pytest.raises(StatementError, match="no statement takes in the fragment 'others'"):
        load_statements(files, made={"columns": "a, b", "others": "c"})


def test_what_the_databases_spell_differently_can_be_shared(tmp_path: Path) -> None:
    text = "UPDATE t SET at = {moment now}, meta = {json meta} WHERE id {among ids} AND NOT n {among ns}"
    statement = load(tmp_path, shared_one=f"-- :name pick\n{text};").pick
    assert statement.sqlite == (
        "UPDATE t SET at = :now, meta = :meta WHERE id IN (SELECT value FROM json_each(:ids))"
        " AND NOT n IN (SELECT value FROM json_each(:ns))"
    )
    assert statement.postgres == (
        "UPDATE t SET at = CAST($1 AS timestamptz), meta = CAST($2 AS jsonb) WHERE id = ANY($3) AND NOT n = ANY($4)"
    )


def test_comments_are_left_out(tmp_path: Path) -> None:
    statement = load(tmp_path, shared_one="-- above\n-- :name pick\n-- why :not\nSELECT :a -- :b\n;").pick
    assert statement.postgres_order == ("a",)
    assert statement.sqlite == "SELECT :a"


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
    statement = load(tmp_path, shared_one=f"-- :name pick\n{text};").pick
    assert (statement.postgres, statement.postgres_order) == (expected, order)


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StatementError, match=r"b\.sql: name 'pick' stands twice in shared/"):
        load(tmp_path, shared_a="-- :name pick\nSELECT 1;", shared_b="-- :name pick\nSELECT 2;")


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (
            {"shared_one": "-- :name pick\nSELECT 1;", "sqlite_one": "-- Why.\n-- :name pick\nSELECT 2;"},
            r"sqlite/one\.sql: name 'pick' also stands in shared/; keep one of the two",
        ),
        (
            {
                "shared_one": "-- :fragment f\n1\n-- :name pick\nSELECT {f};",
                "postgres_one": "-- Why.\n-- :fragment f\n2",
            },
            r"postgres/one\.sql: fragment 'f' also stands in shared/",
        ),
        (
            {
                "sqlite_one": "-- Why.\n-- :name pick\nSELECT 1\n  FROM t;",
                "postgres_two": "-- Why.\n-- :name pick\nSELECT 1 FROM t;",
            },
            r"sqlite/one\.sql: name 'pick' has the same text in postgres/; it belongs into shared/",
        ),
        (
            {
                "sqlite_one": "-- Why.\n-- :name pick\nSELECT {one}; -- Why.\n-- Why.\n-- :fragment one\n1",
                "postgres_one": "-- Why.\n-- :name pick\nSELECT 1;",
            },
            r"'pick' comes to the same text in postgres/; it belongs into shared/",
        ),
        (
            {"sqlite_one": "-- A comment for the file.\n\n-- :name pick\nSELECT 1;"},
            r"sqlite/one\.sql: name 'pick' lacks a comment that says why",
        ),
        (
            {"shared_one": "-- :name pick\nSELECT {f};", "postgres_one": "-- Why.\n-- :fragment f\n1"},
            r"shared/one\.sql: name 'pick' takes in \{f\}, which does not exist for sqlite",
        ),
        (
            {"shared_one": "-- :name pick\nSELECT 1;\n-- :fragment f\n1"},
            r"no statement for sqlite takes in shared/one\.sql: fragment 'f'",
        ),
        (
            {"shared_one": "-- :name pick\nSELECT {amogn ids};"},
            r"says \{amogn ids\}; there are only among, json, moment",
        ),
    ],
)
def test_what_stands_in_the_wrong_place_is_refused(tmp_path: Path, files: dict[str, str], why: str) -> None:
    with pytest.raises(StatementError, match=why):
        load(tmp_path, **files)


def test_a_name_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match="no statement named 'pikc'"):
        _ = load(tmp_path, shared_one="-- :name pick\nSELECT 1;").pikc


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


@dataclass(frozen=True)
class Names:
    """The names of statements, by who runs them."""

    both: frozenset[str]
    sqlite: frozenset[str]
    postgres: frozenset[str]


def names_in_files(statements: Statements) -> Names:
    alone = [frozenset(each.name for each in kind) for kind in (statements.sqlite, statements.postgres)]
    every = frozenset(each.name for each in statements)
    return Names(every - alone[0] - alone[1], alone[0], alone[1])


def names_in_code(package: str) -> Names:
    """The statements of a package of SQL that the code names: `SQL.it`, `SQL.sqlite.it` and `SQL.postgres.it`."""
    found: dict[str, set[str]] = {"both": set(), "sqlite": set(), "postgres": set()}
    for path in SOURCE.rglob("*.py"):
        module = ast.parse(path.read_text("utf-8"))
        if not any(isinstance(node, ast.ImportFrom) and node.module == package for node in ast.walk(module)):
            continue
        for node in ast.walk(module):
            match node:
                case ast.Attribute(value=ast.Attribute(value=ast.Name("SQL"), attr="sqlite" | "postgres" as kind)):
                    found[kind].add(node.attr)
                case ast.Attribute(value=ast.Name("SQL"), attr=name) if name not in found:
                    found["both"].add(name)
                case _:
                    pass
    return Names(*(frozenset(found[kind]) for kind in ("both", "sqlite", "postgres")))


SOURCE = Path(__file__).parents[2] / "src"
PACKAGES = sorted(
    ".".join(path.parent.relative_to(SOURCE).parts)
    for path in SOURCE.rglob("sql/__init__.py")
    if "load_statements(" in path.read_text("utf-8")
)


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def statements(package: str) -> Statements:
    return import_module(package).SQL


def test_there_are_packages_of_statements() -> None:
    assert [package.removeprefix("soliplex.ingester.") for package in PACKAGES] == [
        "goals.sql",
        "lib.embedding.sql",
        "lib.operations.sql",
        "lib.webhooks.sql",
        "lib.wf.sql",
        "lib.workflow.sql",
        "segmenter.jobs.sql",
    ]


def test_code_names_every_statement_and_each_by_who_runs_it(package: str, statements: Statements) -> None:
    """A statement that nobody names is dead; one that both databases run must exist for both."""
    assert names_in_code(package) == names_in_files(statements)


def test_every_statement_is_complete(statements: Statements) -> None:
    for statement in statements:
        texts = [text for text in (statement.sqlite, statement.postgres) if text is not None]
        assert texts
        for text in texts:
            assert ";" not in text, statement.name
            assert "{" not in text.replace("'{}'", ""), statement.name
        assert ":now" not in (statement.postgres or ""), statement.name


def test_no_statement_reads_the_databases_clock(statements: Statements) -> None:
    """Time always comes in as a parameter: the worker's clock decides, and a test's."""
    for statement in statements:
        for text in (statement.sqlite or "", statement.postgres or ""):
            assert "now()" not in text.lower(), statement.name
            assert "current_timestamp" not in text.lower(), statement.name


def test_a_claim_reads_back_what_a_model_of_the_step_needs_and_what_it_does_not_know_itself() -> None:
    """A new column of a step is read back by claims, unless it is named as one that is not."""
    assert {*STEP_COLUMNS, *NOT_READ_BACK} == set(RunStep.model_fields)
    assert set(RUN_COLUMNS) <= set(WorkflowRun.model_fields)
