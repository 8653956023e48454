"""The registry this process uses, made from the settings when it is first asked for."""

from __future__ import annotations

from typing import Final

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.wf.registry import Registry

_in_use: Final[dict[str, Registry]] = {}


def get_registry() -> Registry:
    if "registry" not in _in_use:
        settings = get_settings()
        _in_use["registry"] = Registry(settings.workflow_dir, settings.param_dir, settings.user_param_dir)
    return _in_use["registry"]


def use_registry(registry: Registry | None) -> None:
    """Put another registry in place; None goes back to the settings'."""
    if registry is None:
        _in_use.clear()
    else:
        _in_use["registry"] = registry
