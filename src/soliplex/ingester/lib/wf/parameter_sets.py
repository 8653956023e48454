"""Parameter sets that clients keep: saved in the database, where every process finds them, and deleted from it.

A file in USER_PARAM_DIR is such a set too, of the machine that has the file. The shipped ones are never touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import col, select

from soliplex.ingester.lib.enums import DefinitionKind
from soliplex.ingester.lib.errors import ConflictError
from soliplex.ingester.lib.models import Database, RunGroup
from soliplex.ingester.lib.wf.definitions import ParameterSet, parameter_set_from_yaml
from soliplex.ingester.lib.wf.operations.definitions import delete_definition, learn_definitions, save_parameters
from soliplex.ingester.lib.wf.registry import Registry


class ProtectedParameterSetError(ConflictError):
    """The parameter set must stay: it was shipped, or a run group was started with it."""


@dataclass(frozen=True, slots=True)
class SavedParameterSet:
    """A parameter set, and the row of the table `definition` that holds it."""

    params: ParameterSet
    definition_id: int


async def save_parameter_set(
    registry: Registry, yaml_content: str, *, check: Callable[[ParameterSet], None] | None = None
) -> SavedParameterSet:
    """Check a parameter set and keep it. An id that is in use already is refused.

    `check` raises what else speaks against it: the engine does not know what its values mean.
    """
    # In a thread: reading YAML takes long. The path is the field that the text came in.
    params = await asyncio.to_thread(parameter_set_from_yaml, yaml_content, path=Path("yaml_content"), origin="user")
    if check is not None:
        check(params)
    await learn_definitions()
    if params.id in {each.id for each in registry.parameter_sets()}:
        raise ConflictError(f"parameter set {params.id!r} exists already; delete it first, or give this one another id")
    saved = await save_parameters(params)
    return SavedParameterSet(params, saved.id)


async def delete_parameter_set(registry: Registry, set_id: str) -> None:
    """Delete a parameter set that a client keeps, unless a run group was started with it.

    A group that has ended may be retried, and whoever looks at it may ask for its parameters.
    """
    await learn_definitions()
    params = registry.parameter_set(set_id)
    if params.origin != "user":
        raise ProtectedParameterSetError(f"parameter set {set_id!r} is shipped with the product and cannot be deleted")
    if using := await _groups_using(set_id):
        raise ProtectedParameterSetError(
            f"parameter set {set_id!r} is in use by run group {using[0]}: delete the groups that it was used for first"
        )
    if params.source_path is None:
        await delete_definition(DefinitionKind.PARAMS, set_id)
    else:
        params.source_path.unlink(missing_ok=True)
        registry.refresh()


async def _groups_using(set_id: str) -> Sequence[int | None]:
    query = select(RunGroup.id).where(RunGroup.param_definition_id == set_id).order_by(col(RunGroup.id).desc()).limit(1)
    async with Database.session(read_only=True) as session:
        return list((await session.exec(query)).all())
