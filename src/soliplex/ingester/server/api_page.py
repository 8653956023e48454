"""The page of the documentation about the HTTP API, made from the application's own OpenAPI description.

python -m soliplex.ingester.server.api_page > docs/reference/http-api.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastapi import FastAPI

from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.server import create_app

_INTRODUCTION: Final = """\
# HTTP API

This page is made from the application's OpenAPI description: `python -m soliplex.ingester.server.api_page`. A running
server gives the same as JSON at `/openapi.json`, with every model, and as a page to try it on at `/docs`.
[Ingest over HTTP](../howto/http.md) shows the usual way through it, [who may send which request](http-access.md) what
needs the key. An answer other than those listed is JSON with `error`, a sentence that says what is wrong.
"""

type Json = Mapping[str, Any]


def api_page(app: FastAPI) -> str:
    """The page: a section for each group of routes, and in it one for each operation."""
    description = app.openapi()
    sections = dict[str, list[str]]()
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            group = (operation.get("tags") or ["other"])[0]
            sections.setdefault(group, []).extend(_operation(method, path, operation, description))
    lines = [line for group, found in sections.items() for line in (f"## {group}", "", *found)]
    return "\n".join([_INTRODUCTION, *lines]).rstrip("\n") + "\n"


def _operation(method: str, path: str, operation: Json, whole: Json) -> Iterator[str]:
    yield f"### {method.upper()} `{path}`"
    yield ""
    yield _sentence(operation.get("summary", ""))
    yield ""
    if text := operation.get("description"):
        yield from (line.rstrip() for line in text.strip().splitlines())
        yield ""
    rows = [*_parameters(operation, whole), *_fields(operation, whole)]
    if rows:
        yield from ("| name | in | type | meaning |", "|---|---|---|---|", *rows, "")
    yield from ("| answer | gives |", "|---|---|", *_answers(operation), "")


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _parameters(operation: Json, whole: Json) -> Iterator[str]:
    for each in operation.get("parameters", ()):
        schema = each.get("schema", {})
        yield _row(each["name"], each["in"], schema, whole, required=each.get("required", False), text=each)


def _fields(operation: Json, whole: Json) -> Iterator[str]:
    """The fields of the body. Where several kinds of body are taken, the first tells of all that there are."""
    for kind, body in list(operation.get("requestBody", {}).get("content", {}).items())[:1]:
        schema = _resolved(body["schema"], whole)
        place = "form" if "form" in kind else "body"
        if "properties" not in schema:
            yield f"| body | {place} | {_type(schema, whole)} | |"
        for name, field in schema.get("properties", {}).items():
            yield _row(name, place, field, whole, required=name in schema.get("required", ()), text=field)


def _row(name: str, place: str, schema: Json, whole: Json, *, required: bool, text: Json) -> str:
    meaning = " ".join(str(text.get("description") or schema.get("description") or "").split())
    if required:
        meaning = f"Required. {meaning}".strip()
    elif (default := schema.get("default")) is not None:
        meaning = f"{meaning} Default: `{default}`.".strip()
    return f"| `{name}` | {place} | {_type(schema, whole)} | {_cell(meaning)} |"


def _type(schema: Json, whole: Json) -> str:
    if options := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(_type(it, whole) for it in options if it.get("type") != "null"))
    if "$ref" in schema:
        found = _resolved(schema, whole)
        return _type(found, whole) if "enum" in found else f"`{schema['$ref'].rpartition('/')[2]}`"
    if "enum" in schema:
        return ", ".join(f"`{it}`" for it in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}), whole)}"
    form = schema.get("format")
    return "file" if form == "binary" else str(form or schema.get("type", "any"))


def _answers(operation: Json) -> Iterator[str]:
    for status, answer in operation.get("responses", {}).items():
        kinds = ", ".join(f"`{kind}`" for kind in answer.get("content", {}))
        text = _cell(" ".join(str(answer.get("description", "")).split()))
        yield f"| {status} | {text}{f' ({kinds})' if kinds else ''} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _resolved(schema: Json, whole: Json) -> Json:
    if "$ref" not in schema:
        return schema
    return whole["components"]["schemas"][schema["$ref"].rpartition("/")[2]]


if __name__ == "__main__":
    print(api_page(create_app(load_settings(), with_worker=False)), end="")  # noqa: T201
