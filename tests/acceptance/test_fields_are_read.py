"""Every field of a form and every value of a query that the OpenAPI document names is read by the code of its route.

A value that nobody reads is worse than one that is refused: whoever sends it believes that it counts.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from soliplex.ingester.server.parameters import names_in_body, names_in_query
from soliplex.ingester.server.routes import ROUTERS

ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]


def unread(route: APIRoute) -> Iterator[str]:
    """The names that the route takes and nothing reads: neither as arguments, nor by their names in its module."""
    declared = dict(_declared(route.dependant))
    for name, (function, argument) in declared.items():
        if argument not in _names_loaded(function):
            yield name
    module = inspect.getmodule(route.endpoint)
    assert module is not None
    yield from (names_in_body(route) | names_in_query(route)) - declared.keys() - _words_of(module)


def _declared(dependant: Dependant) -> Iterator[tuple[str, tuple[Callable[..., Any], str]]]:
    assert dependant.call is not None
    for each in (*dependant.query_params, *dependant.body_params):
        yield each.alias, (dependant.call, each.name)
    for below in dependant.dependencies:
        yield from _declared(below)


def _names_loaded(function: Callable[..., Any]) -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _words_of(module: ModuleType) -> set[str]:
    """Attributes that the module reads, and texts that it calls something with, as in `given(request, "uri")`."""
    words: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            words.add(node.attr)
        elif isinstance(node, ast.Call):
            given = (*node.args, *(each.value for each in node.keywords))
            words |= {each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return words


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{min(route.methods)} {route.path}")
def test_every_value_that_a_route_takes_is_read(route: APIRoute) -> None:
    assert sorted(unread(route)) == []


class Neglected(BaseModel):
    """A form of which one field is read."""

    kept: str
    urgency: int = 0


def test_a_value_that_nobody_reads_is_found() -> None:
    async def endpoint(page: int, dropped_argument: int = 0) -> int:
        return page

    def properties() -> dict[str, Any]:
        return {"requestBody": {"content": {"x": {"schema": Neglected.model_json_schema()}}}}

    assert Neglected(kept="x").kept
    route = APIRoute("/x", endpoint, methods=["POST"], openapi_extra=properties())
    assert sorted(unread(route)) == ["dropped_argument", "urgency"]
