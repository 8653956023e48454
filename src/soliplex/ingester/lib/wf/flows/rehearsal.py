"""A flow executed in memory, one step after the other, without a database: for tests.

The same rules as the engine's: conditions, loops, maps that tolerate failures, steps that ask to be called again, and
outputs that come back from JSON. Nothing is tried again and nothing waits: an error is raised, and a wait is answered
at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.storable import as_storable_json
from soliplex.ingester.lib.wf.definitions import StepDefinition
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.execution import message_of, storable_json
from soliplex.ingester.lib.wf.flows.calling import arguments_of, called, with_progress
from soliplex.ingester.lib.wf.progress import checked_report
from soliplex.ingester.lib.wf.waiting import Again, Subflow, Wait

if TYPE_CHECKING:
    from soliplex.ingester.lib.wf.flows.flow import Flow


async def rehearse(flow: Flow, given: Any, signals: Mapping[str, Any]) -> dict[str, Any]:
    """What a run would give: the outputs of the last steps, by name."""
    outputs: dict[str, str] = {}
    definition, stored = flow.definition(), as_storable_json("input", given)
    for step in definition.steps:
        try:
            output = await _Rehearsed(flow, step, json.loads(stored), outputs, signals).output()
            outputs[step.key] = storable_json(output)
        except Exception:
            if not step.optional:
                raise
            outputs[step.key] = "null"
    return {step.key: json.loads(outputs[step.key]) for step in definition.leaf_steps}


def _as_stored(value: Any) -> Any:
    """The value as it would come back from the database: a tuple as a list, keys that are numbers as texts."""
    return json.loads(storable_json(value))


class _Rehearsed:
    """One step."""

    def __init__(
        self, flow: Flow, step: StepDefinition, given: Any, outputs: Mapping[str, str], signals: Mapping[str, Any]
    ) -> None:
        self._function = flow.steps[step.key].function
        self._flow = flow
        self._step = step
        self._given = given
        self._signals = signals
        of_run = given if isinstance(given, dict) else {} if given is None else {"input": given}
        self._known = {**of_run, **{name: json.loads(outputs[name]) for name in step.depends_on}}

    async def output(self) -> Any:
        step = self._step
        if step.when is not None and not step.when.holds({**self._known, "input": self._given, "params": {}}):
            return None
        if step.map is False:
            return await self._called()
        outcomes = [await self._task(place, item) for place, item in enumerate(self._items())]
        failed = sum(isinstance(each, _Failed) for each in outcomes)
        if failed > (step.max_failures or 0):
            raise next(each for each in outcomes if isinstance(each, _Failed)).error
        shown = [{"error": message_of(each.error)} if isinstance(each, _Failed) else each for each in outcomes]
        return shown if step.gather else None

    def _items(self) -> list[Any]:
        step = self._step
        source = f"the output of step {step.depends_on[0]!r}" if step.depends_on else "the run's input"
        found = self._known[step.depends_on[0]] if step.depends_on else self._given
        if isinstance(step.map, str):
            source = f"{source}, key {step.map!r}"
            found = found.get(step.map) if isinstance(found, dict) else None
        if not isinstance(found, list):
            raise PermanentError(
                f"step {step.key!r} maps over {source}, which is not a list but {type(found).__name__}"
            )
        return found

    async def _task(self, place: int, item: Any) -> Any:
        try:
            return await self._called(item, place)
        except Exception as exc:
            if self._step.max_failures is None:
                raise
            return _Failed(exc)

    async def _called(self, item: Any = None, place: int | None = None) -> Any:
        state, answer, calls = None, None, 0
        while True:
            calls += 1
            output = await self._once(item, place, state, answer)
            match output:
                case Again():
                    state, answer = _as_stored(output.state), None
                case Wait():
                    state, answer = _as_stored(output.state), _as_stored(self._signals.get(output.key))
                case Subflow():
                    raise InvalidInputError("subflow", f"{output.slug!r} needs a database; start the flow instead")
                case _:
                    if self._is_over(output, item, calls):
                        return _as_stored(output)
                    state = _as_stored(output)

    async def _once(self, item: Any, place: int | None, state: Any, answer: Any) -> Any:
        context = {
            "step_name": self._step.key,
            "attempt": 1,
            "item_index": place,
            "run_id": 0,
            "run_key": None,
            "workflow_slug": self._flow.slug,
        }
        own = {"item": item, "state": state, "answer": answer, "context": context, "input": self._known}
        known = with_progress(self._function, {**self._known, **own}, lambda: _unheard)
        return await called(self._function, arguments_of(self._function, self._step.key, known))

    def _is_over(self, output: Any, item: Any, calls: int) -> bool:
        repeat = self._step.repeat
        if repeat is None:
            return True
        if repeat.until.holds({**self._known, "input": self._given, "params": {}, "item": item, "output": output}):
            return True
        if calls >= repeat.max:
            raise PermanentError(f"after {calls} calls, `until: {repeat.until.text}` does not hold")
        return False


class _Failed:
    """A task of a map that tolerates failures."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _unheard(fraction: float | None = None, text: str | None = None) -> None:
    """Nobody watches a rehearsal; what cannot be shown is refused all the same."""
    checked_report(0, "", fraction, text)
