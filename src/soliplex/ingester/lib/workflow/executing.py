"""Which step is being executed in this task, so that what its handler stores goes under the step's configuration.

It is noted when a handler's document is loaded for it, in the task that then calls the handler; a plain handler's
thread, and tasks that a handler starts, see it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.work import ClaimedStep
from soliplex.ingester.lib.workflow.sql import SQL

_noted: Final[ContextVar[ClaimedStep | None]] = ContextVar("the step that is being executed", default=None)


def note(steps: Sequence[ClaimedStep]) -> None:
    """Note the step that is about to be executed in this task; nothing is noted for a call of many steps."""
    _noted.set(steps[0] if len(steps) == 1 else None)


async def step_config_of(doc_hash: str) -> int:
    """The id of the configuration of the step that is being executed for this document."""
    step = _noted.get()
    if step is None or step.run["doc_id"] != doc_hash or not await _is_held(step):
        problem = f"it is not known which step makes something of {doc_hash} here"
        fix = "let the handler ask for `doc`, or pass step_config_id=run_step.step_config_id"
        raise PermanentError(f"{problem}; {fix}")
    return step.row["step_config_id"]


async def _is_held(step: ClaimedStep) -> bool:
    """Whether the noted step still runs: the task may have gone on to a step whose handler did not ask for `doc`."""
    return bool(await Database.read(SQL.step_is_held(id=step.id, lease=step.lease)))
