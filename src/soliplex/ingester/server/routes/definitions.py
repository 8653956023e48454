"""`/workflow/definitions` and `/workflow/param-sets`: what workflows and parameter sets there are."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Annotated, Any, Literal

import yaml
from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.wf.definitions import ParameterSet
from soliplex.ingester.lib.wf.operations.definitions import all_workflows, find_workflow, learn_definitions
from soliplex.ingester.lib.wf.parameter_sets import delete_parameter_set, save_parameter_set
from soliplex.ingester.lib.wf.views import DefinitionGraph, graph_of_definition
from soliplex.ingester.lib.workflow.parameter_check import CheckedParameters, check_parameters, schemas
from soliplex.ingester.server.auditing import note
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import Definitions, Text
from soliplex.ingester.server.routes.spellings import route

router = APIRouter(prefix="/workflow", tags=["workflow"])

LARGEST_YAML = 64 << 10
"""Bytes of a parameter set: twenty times the largest that is shipped."""
AS_YAML: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/yaml": {"example": "id: batch\nname: Batch Workflow\n"}, "application/json": {}}}
}
ParameterSetText = Annotated[
    str,
    Form(min_length=1, max_length=LARGEST_YAML, examples=["id: mine\nname: Mine\nconfig:\n  parse: {do_ocr: false}"]),
]


class Listed(BaseModel):
    """A workflow, by its id."""

    id: str = Field(examples=["batch"])
    name: str = Field(examples=["Batch Workflow"])


class ListedWorkflow(Listed):
    """A workflow, and its steps in topological order."""

    steps: list[str] = Field(examples=[["validate", "parse", "chunk", "embed", "store"]])


class ListedParameterSet(Listed):
    """A parameter set, and whether it was shipped or a client keeps it."""

    source: Literal["app", "user"]


class Saved(BaseModel):
    """That a parameter set is saved, in the database, where all servers and workers find it.

    The message tells what shipped steps refuse of it, or never read, too.
    """

    message: str
    id: str
    file_path: str


class DeletedParameterSet(BaseModel):
    """That a parameter set is gone."""

    message: str
    id: str


@router.get("/definitions", summary="Workflows, by id")
async def list_definitions(
    *,
    internal: Annotated[
        bool, Query(description="Those too that only the product itself starts, such as the flows of goals.")
    ] = True,
) -> list[ListedWorkflow]:
    """Those of files, and those that are stored in the database."""
    found = await all_workflows()
    return [
        ListedWorkflow(id=each.id, name=each.name, steps=[step.key for step in each.steps])
        for each in found
        if internal or not each.is_internal
    ]


@router.get(
    "/definitions/{workflow_id}",
    summary="The file of a workflow",
    response_class=Response,
    responses={**AS_YAML, **error_answers(400, 404)},
)
async def get_definition(workflow_id: Text, request: Request) -> Response:
    """As YAML; as JSON for `Accept: application/json`."""
    return await _file((await find_workflow(workflow_id)).text, request)


@router.get("/definitions/{workflow_id}/graph", summary="The graph of a workflow", responses=error_answers(400, 404))
async def get_graph(workflow_id: Text) -> DefinitionGraph:
    """Its steps in topological order, and what waits for what."""
    return graph_of_definition(await find_workflow(workflow_id))


@route(router, "GET", "/param-sets", summary="Parameter sets, by id")
async def list_parameter_sets(registry: Definitions) -> list[ListedParameterSet]:
    await learn_definitions()
    return [_listed(each) for each in registry.parameter_sets()]


@route(router, "GET", "/param-sets/target/{target:path}", summary="Parameter sets that store into a RAG database")
async def list_parameter_sets_of_target(target: Text, registry: Definitions) -> list[ListedParameterSet]:
    """Those whose `store.data_dir` is the target."""
    await learn_definitions()
    return [_listed(each) for each in registry.parameter_sets() if _target_of(each) == target]


@route(
    router,
    "GET",
    "/param-sets/{set_id}",
    summary="The file of a parameter set",
    response_class=Response,
    responses={**AS_YAML, **error_answers(400, 404)},
)
async def get_parameter_set(set_id: Text, registry: Definitions, request: Request) -> Response:
    """As YAML; as JSON for `Accept: application/json`."""
    await learn_definitions()
    return await _file(registry.parameter_set(set_id).text, request)


@route(
    router,
    "POST",
    "/param-sets",
    summary="Save a parameter set",
    status_code=HTTPStatus.CREATED,
    responses=error_answers(400, 409),
)
async def create_parameter_set(
    yaml_content: ParameterSetText,
    registry: Definitions,
    request: Request,
) -> Saved:
    """The text is checked as a file of PARAM_DIR would be. An id that is in use is refused.

    `file_path` names the place in the database. All servers and workers use the parameter set at once.
    """
    saved = await save_parameter_set(registry, yaml_content, check=operations.check_target)
    set_id = saved.params.id
    note(request, id=set_id)
    checked = await asyncio.to_thread(check_parameters, yaml_content, await all_workflows(), ())
    warnings = [f"; warning: {each.field}: {each.problem}" for each in checked.problems]
    return Saved(
        message=f"Parameter set {set_id} saved{''.join(warnings)}",
        id=set_id,
        file_path=f"database:definition/{saved.definition_id}",
    )


@route(router, "POST", "/param-sets/check", summary="What is wrong with a parameter set", responses=error_answers(400))
async def check_parameter_set(yaml_content: ParameterSetText, registry: Definitions) -> CheckedParameters:
    """By the field and the line; nothing is saved. Errors keep it from being saved, warnings do not.

    A warning says what the shipped steps refuse. A handler of your own may take it.
    """
    workflows = await all_workflows()
    await learn_definitions()
    taken = [each.id for each in registry.parameter_sets()]
    return await asyncio.to_thread(check_parameters, yaml_content, workflows, taken)


@router.get("/step-options", summary="What the shipped steps understand")
async def list_step_options() -> dict[str, dict[str, Any]]:
    """For each type of steps a JSON schema of its section in a parameter set."""
    return {name: dict(schema) for name, schema in schemas().items()}


@route(
    router,
    "DELETE",
    "/param-sets/{set_id}",
    summary="Delete a parameter set that a client keeps",
    responses=error_answers(403, 404),
)
async def remove_parameter_set(set_id: Text, registry: Definitions) -> DeletedParameterSet:
    """A parameter set that was shipped, or that a run group was started with, cannot be deleted."""
    await delete_parameter_set(registry, set_id)
    return DeletedParameterSet(message=f"Parameter set {set_id} deleted", id=set_id)


def _listed(params: ParameterSet) -> ListedParameterSet:
    return ListedParameterSet(id=params.id, name=params.name, source=params.origin)


def _target_of(params: ParameterSet) -> Any:
    return params.config.get("store", {}).get("data_dir")


async def _file(text: str, request: Request) -> Response:
    if "application/json" in request.headers.get("accept", ""):
        return await asyncio.to_thread(lambda: JSONResponse(yaml.safe_load(text)))
    return Response(text, media_type="text/yaml")
