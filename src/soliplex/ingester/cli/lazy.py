"""Commands that are imported when they are called or listed, not when the program starts."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections import UserDict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, override

import typer
from typer.core import TyperCommand, TyperGroup

type Command = TyperCommand | TyperGroup


@dataclass(frozen=True, slots=True)
class Group:
    """Commands under a common word."""

    sentence: str
    commands: Mapping[str, str]


class LazyCommands(UserDict[str, Any]):
    """Commands by name; each is given as `module:attribute` or Group, and becomes a command when it is looked up."""

    @override
    def __getitem__(self, key: str) -> Command:
        return load_command(key, super().__getitem__(key))


def lazy_group(app: typer.Typer, commands: Mapping[str, str | Group]) -> TyperGroup:
    """The command line of `app`, whose commands are those of the table."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup), "an app with a callback is a group"
    group.commands = LazyCommands(commands)
    return group


def load_command(name: str, target: str | Group) -> Command:
    """Import `module:attribute`: a function, a coroutine function, or a Typer app that is a group of commands."""
    if isinstance(target, Group):
        return _load_group(name, target)
    module, _, attribute = target.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    app = found if isinstance(found, typer.Typer) else _app_of(name, found)
    command = typer.main.get_command(app)
    command.name = name
    assert isinstance(command, TyperCommand | TyperGroup)
    return command


def _load_group(name: str, group: Group) -> TyperGroup:
    app = typer.Typer(name=name, help=group.sentence, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
    app.callback()(lambda: None)  # with a callback, an app stays a group even if it has a single command
    return lazy_group(app, group.commands)


def _app_of(name: str, function: Callable[..., Any]) -> typer.Typer:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name)(_in_event_loop(function) if inspect.iscoroutinefunction(function) else function)
    return app


def _in_event_loop(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        import asyncio

        asyncio.run(function(*args, **kwargs))

    return run
