"""The operations of the API as its OpenAPI document tells of them, and requests that are made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, urlencode

from fastapi import FastAPI

type Place = Literal["path", "query", "form", "header"]

URLENCODED = "application/x-www-form-urlencoded"
FORMS = (URLENCODED, "multipart/form-data")
"""The document names one of the two; each of these routes takes the other as well."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value that an operation takes."""

    name: str
    place: Place
    schema: Mapping[str, Any]
    is_required: bool

    @property
    def kinds(self) -> list[Mapping[str, Any]]:
        """What it may be, without null."""
        options = self.schema.get("anyOf", [self.schema])
        return [option for option in options if option.get("type") != "null"]

    @property
    def type(self) -> str:
        return "enum" if "enum" in self.kinds[0] else self.kinds[0].get("type", "string")

    def limit(self, name: str) -> int | None:
        return self.kinds[0].get(name)


@dataclass(frozen=True, slots=True)
class Operation:
    """A method at a path, and what it takes."""

    method: str
    path: str
    values: tuple[Value, ...]
    takes_form: bool

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    def request(self, given: Mapping[str, Any], *more: tuple[str, str]) -> Sent:
        """The request that gives these values, each in its place; `more` stands in the form, or else in the query."""
        path = self.path
        query, form, headers = list[tuple[str, str]](), list[tuple[str, str]](), dict[str, str]()
        for value in self.values:
            if value.name not in given:
                continue
            text = str(given[value.name])
            match value.place:
                case "path":
                    path = path.replace(f"{{{value.name}}}", quote(text, safe=""))
                case "query":
                    query.append((value.name, text))
                case "form":
                    form.append((value.name, text))
                case "header":
                    headers[value.name] = text
        (form if self.takes_form else query).extend(more)
        if self.takes_form:
            headers["content-type"] = URLENCODED
        return Sent(self.method, f"{path}?{urlencode(query)}", urlencode(form) if self.takes_form else None, headers)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request, in the words of httpx."""

    method: str
    url: str
    content: str | bytes | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])


def operations_of(app: FastAPI) -> Iterator[Operation]:
    document = app.openapi()
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            if path.startswith("/api/"):
                form = _form(document, described)
                values = [*_parameters(document, described), *form]
                yield Operation(method.upper(), path, tuple(values), bool(form))


def _parameters(document: Mapping[str, Any], described: Mapping[str, Any]) -> Iterator[Value]:
    for each in described.get("parameters", ()):
        yield Value(each["name"], each["in"], _resolved(document, each["schema"]), each.get("required", False))


def _form(document: Mapping[str, Any], described: Mapping[str, Any]) -> list[Value]:
    content = described.get("requestBody", {}).get("content", {})
    described_form = next((content[kind] for kind in FORMS if kind in content), {})
    schema = _resolved(document, described_form.get("schema", {}))
    required = schema.get("required", ())
    taken = {each["name"] for each in described.get("parameters", ())}  # may stand in the query as well
    return [
        Value(name, "form", _resolved(document, each), name in required)
        for name, each in schema.get("properties", {}).items()
        if name not in taken and each.get("format") != "binary"
    ]


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in schema:
        return document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return {**schema, "anyOf": [_resolved(document, each) for each in schema["anyOf"]]}
    return schema
