"""The registry of the current wiring, made from its settings when it is first asked for."""

from __future__ import annotations

from dataclasses import dataclass

from soliplex.ingester.lib.config import WorkflowSettings
from soliplex.ingester.lib.wf.registry import Registry
from soliplex.ingester.lib.wiring import current_wiring


@dataclass(slots=True)
class _InPlace:
    """A registry that was put in place of the one made from the settings."""

    registry: Registry | None = None


def get_registry() -> Registry:
    wiring = current_wiring()
    return wiring.kept(_InPlace).registry or wiring.made(registry_of)


def registry_of(settings: WorkflowSettings) -> Registry:
    return Registry(settings.workflow_dir, settings.param_dir, settings.user_param_dir)


def use_registry(registry: Registry | None) -> None:
    """Put another registry in place; None goes back to the settings', read anew."""
    wiring = current_wiring()
    wiring.kept(_InPlace).registry = registry
    wiring.forget(registry_of)


def chosen_ids(workflow_id: str | None, param_id: str | None) -> tuple[str, str]:
    """The ids of a workflow and of a parameter set; in place of None, the defaults of the settings."""
    settings = current_wiring().settings
    return workflow_id or settings.default_workflow_id, param_id or settings.default_param_id
