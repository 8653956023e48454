"""Steps whose handler is called, as the log tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from soliplex.ingester.lib.log_facts import Facts
from soliplex.ingester.lib.wf.work import ClaimedStep

MOST_NAMED: Final = 100
"""Steps of one call that a record names."""
_NOTHING: Final[Facts] = {}


class Underway:
    """Steps that are executed, until they are over."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Sequence[ClaimedStep]) -> None:
        self._steps = steps

    def end(self) -> None:
        """From now on there is nothing to tell: a task that a handler left behind works on none of its steps."""
        self._steps = ()

    @property
    def only_step(self) -> ClaimedStep | None:
        """The step, if there is one and not several."""
        return self._steps[0] if len(self._steps) == 1 else None

    def facts(self) -> Facts:
        steps = self._steps
        if not steps:
            return _NOTHING
        return _of_one(steps[0]) if len(steps) == 1 else _of_many(steps[:MOST_NAMED])


def _of_one(step: ClaimedStep) -> Facts:
    facts = {"run_id": step.run_id, "step_id": step.id, "step": step.name, "attempt": step.retry + 1}
    return facts if step.run["doc_id"] is None else {**facts, "doc_id": step.run["doc_id"]}


def _of_many(steps: Sequence[ClaimedStep]) -> Facts:
    documents = dict.fromkeys(step.run["doc_id"] for step in steps if step.run["doc_id"] is not None)
    facts = {
        "run_ids": list(dict.fromkeys(step.run_id for step in steps)),
        "step_ids": [step.id for step in steps],
        "step": steps[0].name,
    }
    return {**facts, "doc_ids": list(documents)} if documents else facts
