"""The route step: into another workflow, or into a branch of this one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from soliplex.ingester.lib.language import language_of
from soliplex.ingester.lib.models import (
    ArtifactType,
    Document,
    DocumentURI,
    RunGroup,
    RunStep,
    WorkflowRun,
    WorkflowStepType,
)
from soliplex.ingester.lib.operations.joining import join_group
from soliplex.ingester.lib.parsing.formats import media_type
from soliplex.ingester.lib.routing import Destination, RouteOptions, Traits
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf import graph
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.workflow.arguments import Earlier
from soliplex.ingester.lib.workflow.step_artifacts import required

_COUNT: Final = "soliplex.ingester.lib.parsing.long_documents.count_pages"
PDF: Final = "application/pdf"
ROUTED_FROM: Final = "routed_from"
"""Where a run's parameters keep the workflows that its document came through."""


async def route_document(
    doc: Document | None,
    doc_hash: str,
    places: Sequence[DocumentURI],
    earlier: Mapping[str, Earlier],
    step_params: Mapping[str, Any],
    run_step: RunStep,
    workflow_run: WorkflowRun,
    workflow_def: WorkflowDefinition,
    run_group: RunGroup,
    processes: ProcessPool,
) -> dict[str, Any]:
    """Decide by the rules of the parameter set where the document goes. Repeated, it starts no second run."""
    options = RouteOptions.read(step_params)
    _see_branches(options, run_step.workflow_step_name, workflow_def)
    traits = await _traits(options, required(doc, doc_hash), places, earlier, processes)
    choice = options.choose(traits)
    told = {"rule": choice.rule} if choice.rule is not None else {}
    match choice.destination:
        case None:
            return {**told, "route": "onward"}
        case Destination(branch=str(branch)):
            return {**told, "branch": branch, "skips": options.steps_not_in(branch)}
        case destination:
            return {**told, **await _send_on(destination, doc_hash, workflow_run, run_group)}


async def _send_on(destination: Destination, doc_hash: str, run: WorkflowRun, group: RunGroup) -> dict[str, Any]:
    came_through = [*(run.run_params or {}).get(ROUTED_FROM, ()), run.workflow_definition_id]
    if destination.workflow in came_through:
        way = " → ".join([*came_through, str(destination.workflow)])
        raise PermanentError(f"route.rules: the document would go in a circle: {way}; change the rules")
    run_id = await join_group(
        run.run_group_id,
        doc_hash,
        workflow_id=destination.workflow,
        param_id=destination.params or group.param_definition_id,
        batch_id=run.batch_id,
        priority=run.priority,
        more_params={ROUTED_FROM: came_through},
    )
    return {"workflow": destination.workflow, "continued_in": run_id}


def _see_branches(options: RouteOptions, me: str, workflow: WorkflowDefinition) -> None:
    """Refuse a branch with a step that does not depend on the route step: it may run before the decision."""
    dependencies = workflow.dependencies
    for branch, steps in options.branches.items():
        for step in steps:
            if step not in dependencies or me not in graph.ancestors_of(step, dependencies):
                problem = f"{step!r} is no step of workflow {workflow.id!r} that comes after {me!r}"
                raise PermanentError(f"route.branches.{branch}: {problem}")


async def _traits(
    options: RouteOptions,
    document: Document,
    places: Sequence[DocumentURI],
    earlier: Mapping[str, Earlier],
    processes: ProcessPool,
) -> Traits:
    return Traits(
        mime_type=document.mime_type,
        size=document.file_size or 0,
        uri=places[0].uri if places else "",
        source=places[0].source if places else "",
        pages=await _pages(document, processes) if options.asks_for_pages else None,
        language=await _language(document, earlier) if options.asks_for_language else None,
        meta=document.doc_meta,
    )


async def _pages(document: Document, processes: ProcessPool) -> int | None:
    """The number of pages that validation found, or else that is counted now; None for what has no pages."""
    counted = document.doc_meta.get("page_count")
    if isinstance(counted, int):
        return counted
    if media_type(document.mime_type) != PDF:
        return None  # no process is asked, which may be busy with parsing
    async with get_artifacts().document_file(document.hash) as path:
        return cast("int | None", await processes.run(_COUNT, {"path": path, "mime_type": document.mime_type}))


async def _language(document: Document, earlier: Mapping[str, Earlier]) -> str | None:
    """The language that the metadata names, or else the one of the parsed text."""
    said = document.doc_meta.get("language")
    if isinstance(said, str) and said:
        return said.lower()
    if WorkflowStepType.PARSE not in earlier:
        problem = "the language of the document is not known here"
        raise PermanentError(f"route.rules: {problem}; put a parse step before the route step")
    config_id = earlier[WorkflowStepType.PARSE].config_id
    text = (await get_artifacts().read(document.hash, ArtifactType.PARSED_MD, config_id)).decode("utf-8", "replace")
    return await asyncio.to_thread(language_of, text)
