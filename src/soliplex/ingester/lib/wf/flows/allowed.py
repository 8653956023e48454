"""Which functions a flow may name that a client defines: a client must not call whatever can be imported."""

from __future__ import annotations

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.wf.definitions import OUTSIDE, WorkflowDefinition


def check_commands(flow: WorkflowDefinition, settings: Settings) -> None:
    """Refuse a flow with a command of a module that FLOW_MODULES does not allow."""
    for place, step in enumerate(flow.steps):
        if step.method != OUTSIDE and not is_allowed(step.method, settings.flow_modules):
            known = ", ".join(settings.flow_modules) or "none"
            raise InvalidInputError(
                f"steps[{place}].command",
                f"is {step.method!r}, of a module that FLOW_MODULES does not allow (allowed: {known}); name the module "
                "there, or give a type that begins with an @, for workers that claim over HTTP",
            )


def is_allowed(command: str, modules: tuple[str, ...]) -> bool:
    return any(command.startswith(f"{module}.") for module in modules)
