"""Commands about workflows and parameter sets: list-workflows, dump-workflow, list-param-sets, dump-param-set.

`si-diag config` has the same commands, under other names (`diag/main.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from soliplex.ingester.cli.database import open_database_if_there
from soliplex.ingester.cli.output import AsJson, echo_lines, print_json, print_rows

if TYPE_CHECKING:
    from soliplex.ingester.lib.wf.definitions import ParameterSet, WorkflowDefinition


async def list_workflows(*, as_json: AsJson = False) -> None:
    """List the workflows there are."""
    rows = [
        {
            "id": workflow.id,
            "name": workflow.name,
            "steps": [step.key for step in workflow.steps],
            "file": _file_of(workflow) or "database",
        }
        for workflow in await _workflows()
    ]
    shown = rows if as_json else [{**row, "steps": " ".join(row["steps"])} for row in rows]
    print_rows(shown, {name: name for name in ("id", "name", "steps", "file")}, as_json=as_json, nothing="no workflows")


async def dump_workflow(
    workflow_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the workflow.")], *, as_json: AsJson = False
) -> None:
    """Print the file of a workflow."""
    from soliplex.ingester.lib.wf.catalog import get_registry

    known = {each.id: each for each in await _workflows()}.get(workflow_id)
    # The registry says what is not there, and what has a similar name; or what is wrong with its file.
    _dump((known or get_registry().workflow(workflow_id)).text, as_json=as_json)


async def _workflows() -> list[WorkflowDefinition]:
    from soliplex.ingester.lib.wf.catalog import get_registry
    from soliplex.ingester.lib.wf.operations.definitions import all_workflows

    async with open_database_if_there("workflows that are stored in the database") as is_there:
        return await all_workflows() if is_there else list(get_registry().workflows())


async def list_param_sets(*, as_json: AsJson = False) -> None:
    """List the parameter sets there are."""
    rows = [
        {"id": params.id, "name": params.name, "source": params.origin, "file": _file_of(params)}
        for params in (await _parameter_sets()).values()
    ]
    columns = {name: name for name in ("id", "name", "source", "file")}
    print_rows(rows, columns, as_json=as_json, nothing="no parameter sets")


async def dump_param_set(
    set_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Id of the parameter set. Default: DEFAULT_PARAM_ID.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Print the file of a parameter set."""
    from soliplex.ingester.lib.wf.catalog import chosen_ids, get_registry

    _, chosen = chosen_ids(None, set_id)
    known = (await _parameter_sets()).get(chosen)
    # The registry says what is not there, and what has a similar name; or what is wrong with its file.
    _dump((known or get_registry().parameter_set(chosen)).text, as_json=as_json)


async def _parameter_sets() -> dict[str, ParameterSet]:
    """All parameter sets by id, those that clients have saved in the database among them, if it can be opened."""
    from soliplex.ingester.lib.wf.catalog import get_registry
    from soliplex.ingester.lib.wf.operations.definitions import learn_definitions

    async with open_database_if_there("parameter sets that clients have saved") as is_there:
        if is_there:
            await learn_definitions()
        return {each.id: each for each in get_registry().parameter_sets()}


def _file_of(definition: WorkflowDefinition | ParameterSet) -> str:
    return str(definition.source_path or "")


def _dump(text: str, *, as_json: bool) -> None:
    if as_json:
        import yaml

        content: Any = yaml.safe_load(text)
        print_json(content)
    else:
        echo_lines(text)
