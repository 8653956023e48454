"""Definitions in the database: storing versions, finding them, and learning of those that others have stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from soliplex.ingester.lib.enums import DefinitionKind
from soliplex.ingester.lib.errors import ConflictError, NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Link, Row, Script, datetime_of
from soliplex.ingester.lib.pieces import LARGEST_PAGE
from soliplex.ingester.lib.wf.catalog import chosen_ids, get_registry
from soliplex.ingester.lib.wf.definitions import ParameterSet, WorkflowDefinition
from soliplex.ingester.lib.wf.errors import DefinitionError, UnknownDefinitionError, nearest_names
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.stored import stored
from soliplex.ingester.lib.wf.stored_form import (
    StoredForm,
    stored_form,
    stored_parameter_set,
    workflow_from_stored,
)

_known: Final[dict[tuple[int, str, str], int]] = {}
"""The ids of versions of workflows, by database, slug and hash."""
_MOST_KNOWN: Final = 10_000


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version of a definition."""

    id: int
    version: int


async def pin(workflow: WorkflowDefinition) -> int | None:
    """The stored version that runs of the workflow are pinned to; None for one that a file defines.

    A workflow that is made in code is stored when it is first started, so that every worker knows it.
    """
    if workflow.source_path is not None:
        return None
    form = stored_form(workflow)
    key = (Database.identity(), workflow.id, form.hash)
    if key not in _known:
        version = await Database.transact(_find_or_store(workflow, form))
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = version.id
        stored().keep(version.id, workflow)
        if version.id > stored().known_up_to:
            await learn_definitions()
    return _known[key]


@dataclass(frozen=True, slots=True)
class _New:
    """A version that is to be stored."""

    kind: DefinitionKind
    slug: str
    form: StoredForm | None
    """None: the definition is deleted."""
    has_events: bool = False
    is_draft: bool = False


def _new(workflow: WorkflowDefinition, *, is_draft: bool = False) -> _New:
    has_events = bool(workflow.lifecycle_events)
    return _New(DefinitionKind.WORKFLOW, workflow.id, stored_form(workflow), has_events, is_draft)


def _find_or_store(workflow: WorkflowDefinition, form: StoredForm) -> Script[StoredVersion]:
    key: dict[str, Any] = {"kind": DefinitionKind.WORKFLOW.value, "slug": workflow.id, "hash": form.hash}
    found = yield SQL.definition_by_hash(**key)
    if not found:
        yield SQL.hold_definitions()
        found = yield SQL.definition_by_hash(**key)
    if not found:
        return (yield from _insert(_new(workflow), utcnow()))
    return StoredVersion(found[0]["id"], found[0]["version"])


def _insert(new: _New, now: datetime) -> Script[StoredVersion]:
    """Insert the next version. The caller holds the definitions."""
    key = {"kind": new.kind.value, "slug": new.slug}
    last = (yield SQL.last_version(**key))[0]["version"]
    rows = yield SQL.insert_definition(
        **key,
        version=last + 1,
        hash=new.form.hash if new.form else "",
        content=new.form.content if new.form else None,
        is_draft=new.is_draft,
        has_events=new.has_events,
        now=now,
    )
    return StoredVersion(rows[0]["id"], rows[0]["version"])


async def save_workflow(
    workflow: WorkflowDefinition, *, is_draft: bool = False, now: datetime | None = None
) -> StoredVersion:
    """Store the workflow as the newest version of its id. Where the newest one is the same, that one is given.

    A draft is kept, and not in use: neither found by its id nor started.
    """
    _refuse_what_a_file_defines(workflow.id)
    saved = await Database.transact(_save(_new(workflow, is_draft=is_draft), now or utcnow()))
    stored().keep(saved.id, workflow)
    await learn_definitions()
    return saved


async def save_parameters(params: ParameterSet, *, now: datetime | None = None) -> StoredVersion:
    """Store the parameter set. ConflictError: another with its id is stored, perhaps since a moment ago."""
    new = _New(DefinitionKind.PARAMS, params.id, stored_parameter_set(params))
    saved = await Database.transact(_save(new, now or utcnow(), must_be_new=True))
    await learn_definitions()
    return saved


def _refuse_what_a_file_defines(workflow_id: str) -> None:
    known = get_registry().find_workflow(workflow_id)
    if known is not None and known.source_path is not None:
        raise DefinitionError(f"the workflow {workflow_id!r} is already defined here", path=known.source_path)


def _save(new: _New, now: datetime, *, must_be_new: bool = False) -> Script[StoredVersion]:
    yield SQL.hold_definitions()
    newest = yield SQL.newest_definition(kind=new.kind.value, slug=new.slug)
    if must_be_new and newest and newest[0]["content"] is not None:
        raise ConflictError(f"parameter set {new.slug!r} exists already; delete it first, or give this one another id")
    if newest and new.form and newest[0]["hash"] == new.form.hash and not new.is_draft:
        return StoredVersion(newest[0]["id"], newest[0]["version"])
    # A version that no longer handles events must be known to all as well, or the one before it would go on to.
    announced = new.has_events or bool(newest and newest[0]["has_events"])
    return (yield from _insert(replace(new, has_events=announced), now))


async def delete_definition(kind: DefinitionKind, slug: str, *, now: datetime | None = None) -> None:
    """Let the definition be found no more. Runs that were started with a version of it go on with that version."""

    def script() -> Script[None]:
        yield SQL.hold_definitions()
        newest = yield SQL.newest_with_drafts(kind=kind.value, slug=slug)
        if not newest or newest[0]["content"] is None:
            raise NotFoundError("stored workflow" if kind is DefinitionKind.WORKFLOW else "stored parameter set", slug)
        yield from _insert(_New(kind, slug, None, bool(newest[0]["has_events"])), now or utcnow())

    await Database.transact(script())
    await learn_definitions()


async def find_workflow(workflow_id: str) -> WorkflowDefinition:
    """The workflow with this id: of a file, of code, or the newest stored version."""
    if (known := get_registry().find_workflow(workflow_id)) is not None:
        return known
    rows = await Database.read(SQL.newest_definition(kind=DefinitionKind.WORKFLOW.value, slug=workflow_id))
    if not rows or rows[0]["content"] is None:
        return await _not_there(workflow_id)
    found = _stored_workflow(rows[0])
    _known[Database.identity(), workflow_id, rows[0]["hash"]] = rows[0]["id"]
    return found


async def _not_there(workflow_id: str) -> WorkflowDefinition:
    """Say what is not there, and what has a similar name, in files or stored."""
    try:
        return get_registry().workflow(workflow_id)
    except UnknownDefinitionError as exc:
        slugs = [row["slug"] for row in await Database.read(SQL.slugs_of_stored_workflows(limit=LARGEST_PAGE))]
        near = nearest_names(workflow_id, slugs)
        if exc.nearest or not near:
            raise
        raise UnknownDefinitionError("workflow", workflow_id, near) from None


async def all_workflows() -> list[WorkflowDefinition]:
    """The workflows of files and of code, and those that are stored, ten thousand at most, by id."""
    known = {each.id: each for each in get_registry().workflows()}
    for row in await Database.read(SQL.stored_workflows(limit=LARGEST_PAGE)):
        if row["slug"] not in known:
            known[row["slug"]] = _stored_workflow(row)
    return [known[workflow_id] for workflow_id in sorted(known)]


def _stored_workflow(row: Row) -> WorkflowDefinition:
    return stored().version(row["id"]) or stored().keep(row["id"], workflow_from_stored(row["content"]))


@dataclass(frozen=True, slots=True)
class VersionOfWorkflow:
    """A stored workflow, and which version it is."""

    workflow: WorkflowDefinition
    version: int


async def newest_with_drafts(slug: str) -> VersionOfWorkflow | None:
    """The newest version of a stored workflow, a draft or not; None if there is none, or it is deleted."""
    rows = await Database.read(SQL.newest_with_drafts(kind=DefinitionKind.WORKFLOW.value, slug=slug))
    return _version_of(rows[0]) if rows and rows[0]["content"] is not None else None


async def newest_of_all() -> list[VersionOfWorkflow]:
    """The newest versions of all stored workflows, drafts or not, by id; ten thousand at most."""
    return [_version_of(row) for row in await Database.read(SQL.newest_of_all(limit=LARGEST_PAGE))]


def _version_of(row: Row) -> VersionOfWorkflow:
    workflow = workflow_from_stored(row["content"], is_draft=bool(row["is_draft"]))
    return VersionOfWorkflow(workflow, row["version"])


async def chosen_definitions(workflow_id: str | None, param_id: str | None) -> tuple[WorkflowDefinition, ParameterSet]:
    """The workflow and the parameter set of these ids, in place of None those that the settings name."""
    workflow_id, param_id = chosen_ids(workflow_id, param_id)
    await learn_definitions()
    return await find_workflow(workflow_id), get_registry().parameter_set(param_id)


async def load_versions(definition_ids: Iterable[int | None]) -> None:
    """Read the versions of workflows that steps are pinned to and that this process does not have yet."""
    missing = stored().missing(definition_ids)
    if not missing:
        return
    for row in await Database.read(SQL.definitions_by_id(ids=sorted(missing))):
        if row["content"] is not None:
            stored().keep(row["id"], workflow_from_stored(row["content"]))


async def learn_definitions(source: Link | type[Database] = Database) -> None:
    """Learn of the definitions that others have stored meanwhile. In the usual case this is one look at an index."""
    up_to = (await source.read(SQL.last_definition()))[0]["id"]
    if up_to > stored().known_up_to:
        calls = SQL.definitions_known_to_all(after=stored().known_up_to, up_to=up_to)
        stored().learn(await source.read(calls), up_to)


def learned(runs: Sequence[Row]) -> Script[None]:
    """As `learn_definitions`, inside a transaction, and only if one of the runs has a version that may be unknown."""
    known = stored().known_up_to
    for run in runs:
        if (run["definition_id"] or 0) > known:
            yield from _learn()
            return


def learned_all() -> Script[None]:
    """As `learn_definitions`, inside a transaction."""
    yield from _learn()


def _learn() -> Script[None]:
    up_to = (yield SQL.last_definition())[0]["id"]
    if up_to > stored().known_up_to:
        rows = yield SQL.definitions_known_to_all(after=stored().known_up_to, up_to=up_to)
        stored().learn(rows, up_to)


@dataclass(frozen=True, slots=True)
class DefinitionVersion:
    """What is known about a version of a definition without reading it."""

    id: int
    version: int
    hash: str
    is_deleted: bool
    is_draft: bool
    created_date: datetime | None


async def definition_versions(kind: DefinitionKind, slug: str) -> list[DefinitionVersion]:
    """All versions of a definition, the oldest first."""
    rows = await Database.read(SQL.versions_of_definition(kind=kind.value, slug=slug))
    return [
        DefinitionVersion(
            row["id"],
            row["version"],
            row["hash"],
            bool(row["is_deleted"]),
            bool(row["is_draft"]),
            datetime_of(row, "created_date"),
        )
        for row in rows
    ]
