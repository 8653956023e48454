"""How a function is named in a definition, and found again by the worker that executes the step.

A function of a module is named by its address, `package.module:function`, and any worker can import it. One that only
this process knows (a closure, a lambda, a function of the script that runs) is kept here, under a token that its runs
carry; the type of its step is one that no other process takes (`this_process`).
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final
from uuid import uuid4

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.wf.errors import CannotExecute

type Function = Callable[..., Any]
type Kept = Mapping[str, Any]
"""Functions by the names of their steps; or a workflow of a class, under the name `workflow`."""

TOKEN: Final = "functions"  # noqa: S105  a name
"""The name under which the parameters of a run hold the token of functions that only one process has."""
_NAMED: Final = frozenset({inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY})
_kept: Final[dict[str, Kept]] = {}


def address_of(function: Any) -> str | None:
    """Where any process can import the function or class from; None if it only exists in this one."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<")
    if module in (None, "__main__") or "<" in name:
        return None
    address = f"{module}:{name}"
    try:
        found = imported(address)
    except CannotExecute:
        return None
    return address if found is function else None


@lru_cache(maxsize=4096)
def imported(address: str) -> Any:
    """What stands at the address."""
    module, _, name = address.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as exc:
        raise CannotExecute(f"{address!r} cannot be imported: {exc}") from exc
    return found


def keep(functions: Kept, slug: str | None = None) -> str:
    """Keep functions that only this process has; gives the token under which they are found.

    With a slug, runs of that flow find them that carry no token: subflows, schedules, those started by the slug.
    """
    token = uuid4().hex
    _kept[token] = functions
    if slug is not None:
        _kept[_of_flow(slug)] = functions
    return token


def share(token: str, slug: str) -> None:
    """Let runs of the flow that carry no token find the functions of this token, too."""
    _kept[_of_flow(slug)] = _kept[token]


def _of_flow(slug: str) -> str:
    return f"flow {slug}"


def forget(token: str) -> None:
    _kept.pop(token, None)


def kept(token: str | None, name: str, slug: str = "") -> Any:
    """The function of a step, by the token that its run carries, or else by its flow."""
    try:
        return _kept[_of_flow(slug) if token is None else token][name]
    except KeyError:
        raise CannotExecute(f"the function of step {name!r} exists in the process alone that started the run") from None


@lru_cache(maxsize=4096)
def parameters_of(function: Function) -> dict[str, bool]:
    """The names that the function's parameters ask for, each with whether it has a default."""
    found: dict[str, bool] = {}
    for each in inspect.signature(function).parameters.values():
        if each.kind not in _NAMED:
            problem = f"takes any number of {each.name}; name each parameter like a step or a key of the run's input"
            raise InvalidInputError(getattr(function, "__qualname__", "the function"), problem)
        found[each.name] = each.default is not each.empty
    return found
