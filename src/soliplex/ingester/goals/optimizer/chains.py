"""Steps that were merged: one step of the engine that calls the functions of several, one after the other.

    a ──▶ b ──▶ c    becomes    c, which calls a, then b with what a gave, then c with what b gave

The last one's name stays, and with it the output of the run. What a function asks for (`Again`, `Wait`, `Subflow`) is
passed on with what those before it gave in its state, so that none of them is called again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, cast

from soliplex.ingester.goals import tasks
from soliplex.ingester.lib.wf.definitions import StepDefinition
from soliplex.ingester.lib.wf.flows import calling
from soliplex.ingester.lib.wf.reading import JsonValue
from soliplex.ingester.lib.wf.waiting import Again, Subflow, Wait

EXECUTE: Final = f"{__name__}.execute_chain"
CHAIN: Final = "chain"
"""The parameter of a merged step: its links, each with key, method and parameters."""
MERGEABLE: Final = frozenset({calling.CALL, tasks.EXECUTE, EXECUTE})


def merged(first: StepDefinition, second: StepDefinition) -> StepDefinition:
    """A step that does the work of both. It has the time of both, and the attempts of the one that has more."""
    links = cast("JsonValue", [*links_of(first), *links_of(second)])
    return replace(
        second,
        method=EXECUTE,
        parameters={CHAIN: links},
        depends_on=first.depends_on,
        retries=max(first.retries, second.retries),
        timeout=_both(first.timeout, second.timeout),
        priority=max(first.priority, second.priority),
    )


def links_of(step: StepDefinition) -> list[dict[str, Any]]:
    """What a step calls, one after the other."""
    if step.method == EXECUTE:
        return cast("list[dict[str, Any]]", step.parameters[CHAIN])
    return [{"key": step.key, "method": step.method, "parameters": dict(step.parameters)}]


def _both(first: timedelta | None, second: timedelta | None) -> timedelta | None:
    return None if first is None or second is None else first + second


async def execute_chain(
    input: dict[str, Any],  # noqa: A002  what handlers ask for
    state: Any,
    answer: Any,
    step_def: StepDefinition,
    step_context: dict[str, Any],
    run_params: dict[str, Any],
) -> Any:
    """Call the links that have not been called yet."""
    links = links_of(step_def)
    done: list[Any] = [] if state is None else state["done"]
    own_state, output = (None, None) if state is None else (state["state"], None)
    for link in links[len(done) :]:
        given = input if not done else _input_of(input, step_def, links[len(done) - 1]["key"], done[-1])
        output = await _call(link, step_def, given, own_state, answer, step_context, run_params)
        if isinstance(output, Again | Wait | Subflow):
            return replace(output, state={"done": done, "state": output.state})
        done, own_state, answer = [*done, output], None, None
    return output


def _input_of(given: Mapping[str, Any], step: StepDefinition, before: str, output: Any) -> dict[str, Any]:
    """What a link is given: the run's input, and what the link before it gave."""
    return {name: value for name, value in given.items() if name not in step.depends_on} | {before: output}


async def _call(
    link: Mapping[str, Any],
    step: StepDefinition,
    given: dict[str, Any],
    state: Any,
    answer: Any,
    context: dict[str, Any],
    run_params: dict[str, Any],
) -> Any:
    own = replace(step, key=link["key"], name=link["key"], method=link["method"], parameters=link["parameters"])
    told = {**context, "step_name": link["key"]}
    if own.method == tasks.EXECUTE:
        return await tasks.execute_task(given, state, answer, own, told)
    return await calling.call_function(given, None, state, answer, own, told, run_params)
