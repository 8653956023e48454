"""Parameter sets that clients keep: saved into USER_PARAM_DIR and deleted from it, never touching the shipped ones."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from sqlmodel import col, select

from soliplex.ingester.lib.errors import ConflictError
from soliplex.ingester.lib.models import Database, RunGroup
from soliplex.ingester.lib.wf.definitions import ParameterSet, parameter_set_from_yaml
from soliplex.ingester.lib.wf.registry import Registry


class ProtectedParameterSetError(ConflictError):
    """The parameter set must stay: it was shipped, or a run group was started with it."""


def save_parameter_set(
    registry: Registry, folder: Path, yaml_content: str, *, check: Callable[[ParameterSet], None] | None = None
) -> ParameterSet:
    """Check a parameter set and keep it as a file of its own. An id that is in use already is refused.

    `check` raises what else speaks against it: the engine does not know what its values mean.
    Reading YAML takes long: for a thread.
    """
    params = parameter_set_from_yaml(yaml_content, path=Path("yaml_content"))  # the field it came in
    if check is not None:
        check(params)
    path = folder / f"{params.id}.yaml"
    known = {each.id: each for each in registry.parameter_sets()}
    if params.id in known:
        raise ConflictError(f"parameter set {params.id!r} exists already; delete it first, or give this one another id")
    folder.mkdir(parents=True, exist_ok=True)
    registry.refresh_after(lambda: _write_new(path, yaml_content))
    return registry.parameter_set(params.id)


async def delete_parameter_set(registry: Registry, set_id: str) -> None:
    """Delete a parameter set that a client keeps, unless a run group was started with it.

    Also one that has ended may be retried, and whoever looks at it may ask what it was done with.
    """
    params = registry.parameter_set(set_id)
    if params.origin != "user" or params.source_path is None:
        raise ProtectedParameterSetError(f"parameter set {set_id!r} is shipped with the product and cannot be deleted")
    if using := await _groups_using(set_id):
        raise ProtectedParameterSetError(
            f"parameter set {set_id!r} is in use by run group {using[0]}: delete the groups that it was used for first"
        )
    params.source_path.unlink(missing_ok=True)
    registry.refresh()


async def _groups_using(set_id: str) -> Sequence[int | None]:
    query = select(RunGroup.id).where(RunGroup.param_definition_id == set_id).order_by(col(RunGroup.id).desc()).limit(1)
    async with Database.session(read_only=True) as session:
        return list((await session.exec(query)).all())


def _write_new(path: Path, content: str) -> None:
    """Write the whole file or none of it, and never over another."""
    file, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(file, "w", encoding="utf-8", newline="") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(name, path)  # fails where a file of this name exists, which a rename would replace
    except FileExistsError:
        raise ConflictError(f"{path.name} exists already in {path.parent}") from None
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()
