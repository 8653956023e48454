"""What stands above the engine and takes part in its work, found by name.

The engine imports nothing that knows what its runs are about. The settings name the modules that do
(ENGINE_EXTENSIONS). The engine imports them by these names, as it imports the modules of handlers, when it first needs
what they bring. While such a module is imported, it registers:

    handlers.provide(name, loader)       a value that handlers may ask for by name
    own_pool(step_type, size)            a pool of its own for a type of step, in workers that are given no pools
    decides(step_type, reason)           which steps have nothing to do after a step of a type has decided so
    tidies(it)                           deletes what belonged to runs that have been deleted
    operations.belonging.set_owner(it)   who is told when the work in a run group ends, and when there is work again
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.wiring import current_wiring

type PoolSize = Callable[[Settings], int]
type Reason = Callable[[str, str, Any], str | None]
"""Given the key of a step, the key of the step that decided and its output: why the first has nothing to do, if so."""

type Tidying = Callable[[], Awaitable[object]]

_loaded: Final = set[str]()
_own_pools: Final = dict[str, PoolSize]()
_reasons: Final = dict[str, Reason]()
_tidying: Final = dict[Tidying, None]()


def load_extensions(settings: Settings) -> None:
    """Import the modules that the settings name. Once they are imported, this costs next to nothing."""
    for module in settings.engine_extensions:
        if module not in _loaded:
            _load(module)


async def extensions_loaded() -> None:
    """As `load_extensions`, in a thread: the first time may take seconds, in which the worker does other things."""
    settings = current_wiring().settings
    if not _loaded.issuperset(settings.engine_extensions):
        await asyncio.to_thread(load_extensions, settings)


def _load(module: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError as exc:
        problem = f"the module {module!r} cannot be imported ({exc})"
        raise ConfigurationError("ENGINE_EXTENSIONS", problem, "correct its name, or install what it needs") from exc
    _loaded.add(module)


def own_pool(step_type: str, size: PoolSize) -> None:
    """Let workers have a pool for steps of this type, of the size that the settings give."""
    _own_pools[step_type] = size


def own_pools(settings: Settings) -> dict[str, int]:
    """The types of steps that have a pool of their own, and the size of each."""
    load_extensions(settings)
    return {step_type: size(settings) for step_type, size in _own_pools.items()}


def tidies(it: Tidying) -> None:
    """Let this be called when runs may have been deleted. It finds by itself what has lost its run."""
    _tidying[it] = None


async def tidy() -> None:
    """Have everything deleted that belonged to runs which are gone."""
    await extensions_loaded()
    for each in _tidying:
        await each()


def decides(step_type: str, reason: Reason) -> None:
    """Let steps of this type decide which of those that follow them are skipped."""
    _reasons[step_type] = reason


def deciding_types() -> Collection[str]:
    """The types of steps that decide which of those that follow them are skipped."""
    return _reasons.keys()


def reason_to_skip(step: str, decided_by: str, step_type: str, output: Any) -> str | None:
    """Why the step has nothing to do after a step of this type has decided; None where it has."""
    return _reasons[step_type](step, decided_by, output)
