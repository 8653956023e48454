"""The handlers of flows: they find the function of a step, give it what its parameters name, and call it.

A parameter is, in this order: one of the names below, the output of a step that the step depends on, a key of the run's
input.

    item       in a map step: the item
    state      what the function asked to be given back (`Again`, `Wait`), or None
    answer     what it waited for, or None
    input      the run's input, and the outputs of the steps that the step depends on
    context    step_name, attempt, item_index, run_id, run_key, workflow_slug

Where none of these is called `progress`, that is a function to say how far the call has come.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from soliplex.ingester.lib.models import LifeCycleEvent, WorkflowRun
from soliplex.ingester.lib.models.statements import to_json
from soliplex.ingester.lib.wf.definitions import NAMES_OF_A_CALL, StepDefinition
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.flows.functions import TOKEN, Function, imported, kept, parameters_of
from soliplex.ingester.lib.wf.operations.payloads import value_of
from soliplex.ingester.lib.wf.progress import progress_of_this_call

_HERE: Final = __name__
CALL: Final = f"{_HERE}.call_function"
CALL_WITH_ITEM: Final = f"{_HERE}.call_with_item"
COMMAND: Final = f"{_HERE}.execute_command"
ENDED: Final = f"{_HERE}.tell_end"
FUNCTION: Final = "function"
"""The parameter of a step that holds the address of its function. Without it, the run carries a token."""
_PROGRESS: Final = "progress"
OF_A_CALL: Final = NAMES_OF_A_CALL - {"input"}
"""What is known of a call without looking up what other steps gave."""


async def call_function(
    input: dict[str, Any],  # noqa: A002  what handlers ask for
    item: Any,
    state: Any,
    answer: Any,
    step_def: StepDefinition,
    step_context: dict[str, Any],
    run_params: dict[str, Any],
) -> Any:
    """Call a function that asks for outputs of steps, or for the run's input."""
    own = {"item": item, "state": state, "answer": answer, "context": step_context, "input": input}
    function = _function_of(step_def, step_context, run_params)
    known = with_progress(function, {**input, **own}, progress_of_this_call)
    return await called(function, arguments_of(function, step_def.key, known))


async def call_with_item(
    item: Any,
    state: Any,
    answer: Any,
    step_def: StepDefinition,
    step_context: dict[str, Any],
    run_params: dict[str, Any],
) -> Any:
    """Call a function that asks for nothing that has to be read: most tasks of maps are such."""
    own = {"item": item, "state": state, "answer": answer, "context": step_context}
    function = _function_of(step_def, step_context, run_params)
    return await called(function, arguments_of(function, step_def.key, own))


async def execute_command(
    input: dict[str, Any],  # noqa: A002  what handlers ask for
    step_def: StepDefinition,
    step_context: dict[str, Any],
    run_params: dict[str, Any],
) -> Any:
    """Have a class of workflows execute the command of a step."""
    workflow = _workflow_of(step_def.parameters, step_context, run_params)
    command = step_def.parameters["command"]
    return await called(
        workflow.execute_command,
        {"run_id": step_context["run_id"], "command": command, "input": input, "context": step_context},
    )


async def tell_end(
    workflow_run: WorkflowRun,
    event: str,
    event_id: int,
    error: str | None,
    workflow: str | None = None,
) -> None:
    """Tell a class of workflows that a run of it has ended."""
    context = {
        "event_id": event_id,
        "run_key": workflow_run.run_key,
        "workflow_slug": workflow_run.workflow_definition_id,
    }
    told = _workflow_of({"workflow": workflow}, context, workflow_run.run_params)
    if event == LifeCycleEvent.ITEM_END:
        output = await value_of(to_json(workflow_run.output))
        await called(told.on_complete, {"run_id": workflow_run.id, "output": output, "context": context})
    else:
        problem = {"message": error or workflow_run.status_message}
        await called(told.on_failure, {"run_id": workflow_run.id, "error": problem, "context": context})


def with_progress(function: Function, known: dict[str, Any], progress: Callable[[], Any]) -> dict[str, Any]:
    """What is known, and for a function that asks for `progress` in vain, what `progress` gives."""
    if _PROGRESS in parameters_of(function) and _PROGRESS not in known:
        known[_PROGRESS] = progress()
    return known


def arguments_of(function: Function, step: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """What the function asks for by the names of its parameters."""
    wanted = parameters_of(function)
    missing = [name for name, is_optional in wanted.items() if name not in known and not is_optional]
    if missing:
        there = ", ".join(sorted(known.keys() - NAMES_OF_A_CALL)) or "nothing"
        raise PermanentError(
            f"step {step!r} asks for {', '.join(missing)}: no step that it depends on, and no key of the run's input; "
            f"known are: {there}"
        )
    return {name: known[name] for name in wanted if name in known}


async def called(function: Function, arguments: Mapping[str, Any]) -> Any:
    """What the function returns: awaited, or called in a thread."""
    if is_async(function):
        return await function(**arguments)
    output = await asyncio.to_thread(function, **arguments)
    # The function may be an object whose call is async, or a plain function that returns a coroutine.
    return await output if inspect.isawaitable(output) else output


is_async: Final = lru_cache(maxsize=4096)(inspect.iscoroutinefunction)
"""Whether calling the function gives something to await. Kept, since finding out takes longer than many a call."""


def _function_of(step: StepDefinition, context: Mapping[str, Any], run_params: Mapping[str, Any]) -> Function:
    address = step.parameters.get(FUNCTION)
    return imported(str(address)) if address is not None else _kept_for(context, run_params, step.key)


def _workflow_of(parameters: Mapping[str, Any], context: Mapping[str, Any], run_params: Mapping[str, Any]) -> Any:
    address = parameters.get("workflow")
    found = imported(str(address)) if address is not None else _kept_for(context, run_params, "workflow")
    return found() if isinstance(found, type) else found


def _kept_for(context: Mapping[str, Any], run_params: Mapping[str, Any], name: str) -> Any:
    return kept(run_params.get(TOKEN), name, context["workflow_slug"])
