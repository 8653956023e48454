"""What can go wrong in the engine; the whole tree stands in `soliplex.ingester.lib.errors`."""

from __future__ import annotations

from pathlib import Path

from soliplex.ingester.lib.errors import EngineError


class DefinitionError(EngineError):
    """A workflow or parameter definition is wrong; the message names file, line and key."""

    def __init__(self, problem: str, *, path: Path | None = None, line: int | None = None, key: str | None = None) -> None:
        place = ":".join(str(part) for part in (path, line) if part is not None)
        super().__init__(": ".join(part for part in (place, key, problem) if part))
        self.problem = problem
        self.path = path
        self.line = line
        self.key = key


class CycleError(DefinitionError):
    """The steps depend on one another in a circle."""

    def __init__(self, cycle: tuple[str, ...], *, path: Path | None = None, line: int | None = None) -> None:
        super().__init__(f"steps depend on one another in a circle: {' -> '.join(cycle)}", path=path, line=line)
        self.cycle = cycle


class LeaseLost(EngineError):  # noqa: N818  a fact about the lease, named as the glossary names it
    """Another worker owns this step now; what was computed must be dropped."""

    def __init__(self, step_id: int) -> None:
        super().__init__(f"the lease on step {step_id} was lost")
        self.step_id = step_id


class PermanentError(EngineError):
    """Raised by a handler when trying again cannot help: the step fails at once."""


class StepTimeout(EngineError):  # noqa: N818  named as the glossary names it
    """An attempt took longer than the step allows."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the step did not finish within {seconds:g} seconds")
        self.seconds = seconds


class StepCancelled(EngineError):  # noqa: N818  named as the glossary names it
    """The run was cancelled while the attempt was under way."""
