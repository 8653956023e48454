"""Steps whose handler is called, as the log tells of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from soliplex.ingester.lib.log_facts import Facts
from soliplex.ingester.lib.wf.work import ClaimedStep

type TraceOf = Callable[[ClaimedStep], str | None]
"""Gives the id of the trace that a step is part of; None where it is not traced."""

MOST_NAMED: Final = 100
"""Steps of one call that a record names."""
_NOTHING: Final[Facts] = {}


class Underway:
    """Steps that are executed, until they are over."""

    __slots__ = ("_steps", "_trace_of")

    def __init__(self, steps: Sequence[ClaimedStep], trace_of: TraceOf | None = None) -> None:
        self._steps = steps
        self._trace_of = trace_of

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
        facts = _of_one(steps[0]) if len(steps) == 1 else _of_many(steps[:MOST_NAMED])
        # Where several share a call, what their handler traces stands in the trace of the first.
        trace_id = None if self._trace_of is None else self._trace_of(steps[0])
        return facts if trace_id is None else {**facts, "trace_id": trace_id}


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
