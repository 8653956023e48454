"""The engine knows no documents: neither its statements nor its code name a table or a model of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import soliplex.ingester.lib.wf
from soliplex.ingester.lib.models import documents, embeddings, metadata, payloads, responses, task_queues, workflows

ENGINE: Final = Path(soliplex.ingester.lib.wf.__file__).parent
SQL_FILES: Final = sorted(ENGINE.rglob("*.sql"))
PYTHON_FILES: Final = sorted(ENGINE.rglob("*.py"))

ANYTHINGS: Final = frozenset({"PaginatedResponse"})
"""Models beside those of documents that have nothing to do with them: one page of any list."""


def classes_of(*modules: object) -> dict[str, type]:
    return {
        name: thing
        for module in modules
        for name, thing in vars(module).items()
        if isinstance(thing, type) and thing.__module__ == getattr(module, "__name__", "")
    }


MODELS: Final = classes_of(documents, embeddings, responses).keys() - ANYTHINGS
TABLES: Final = frozenset(metadata.tables) - {
    str(getattr(model, "__tablename__", "")) for model in classes_of(workflows, payloads, task_queues).values()
}
A_TABLE: Final = re.compile(rf"\b({'|'.join(sorted(TABLES))})\b", re.IGNORECASE)
A_MODULE_ABOVE: Final = re.compile(
    r"soliplex\.ingester\.(cli|diag|server|example|goals|installation|integrations|mcp_server|segmenter"
    r"|lib\.(?!wf\b|models\b|config\b|logs\b|enums\b|errors\b)\w+)"
)

OPAQUE: Final = frozenset({"doc_id", "batch_id"})
"""Columns of runs and groups that the schema of the field has. The engine stores what they hold, finds runs by it and
hands it out to handlers and owners. It never looks into it: the tables that they refer to stand in no statement."""


def names_in(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
            case _:
                pass


def texts_in(module: ast.Module) -> Iterator[str]:
    """The texts of the code. Docstrings are prose, and may speak of documents for the sake of those who read them."""
    prose = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def without_comments(path: Path) -> str:
    return re.sub(r"--[^\n]*", "", path.read_text("utf-8"))


def test_there_is_something_to_look_for() -> None:
    assert {"Document", "DocumentURI", "DocumentBatch", "DocumentInfo", "CachedEmbedding"} <= MODELS
    assert {"document", "documenturi", "documentbatch", "syncstate", "cachedembedding"} <= TABLES
    assert "workflowrun" not in TABLES
    assert len(SQL_FILES) > 15
    assert len(PYTHON_FILES) > 40


def test_no_statement_of_the_engine_names_a_table_of_documents() -> None:
    found = {path.relative_to(ENGINE): A_TABLE.findall(without_comments(path)) for path in SQL_FILES}
    assert {path: tables for path, tables in found.items() if tables} == {}


def test_no_code_of_the_engine_names_a_model_or_a_table_of_documents() -> None:
    found: dict[str, list[str]] = {}
    for path in PYTHON_FILES:
        module = ast.parse(path.read_text("utf-8"))
        named = [name for name in names_in(module) if name in MODELS]
        named += [text for text in texts_in(module) if A_TABLE.search(text)]
        if named:
            found[str(path.relative_to(ENGINE))] = named
    assert found == {}


def test_the_engine_names_no_module_that_stands_above_it() -> None:
    """Whoever extends it is named by the settings."""
    modules = {path: ast.parse(path.read_text("utf-8")) for path in PYTHON_FILES}
    found = {
        path.name: text for path, module in modules.items() for text in texts_in(module) if A_MODULE_ABOVE.search(text)
    }
    assert found == {}


def test_of_documents_the_statements_of_the_engine_name_no_more_than_the_ids_that_runs_refer_to() -> None:
    words = {word for path in SQL_FILES for word in re.findall(r"\w+", without_comments(path).lower())}
    assert {word for word in words if re.match(r"doc|batch|uri|hash_of|artifact|rag", word)} == OPAQUE
