"""The definitions that are stored in the database, as far as this process knows them.

A run of a workflow that no file defines is pinned to a stored version of it (`workflowrun.definition_id`), so that
every worker can execute it, and keeps to that version whatever becomes of the workflow. A version never changes: it is
read once. Parameter sets, and workflows that handle events, must be known before they are asked for, since whoever
writes an event has to know who listens. So they are read in the order of their ids, and `known_up_to` says how far this
process has come: a worker starts no run whose version is newer than that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from soliplex.ingester.lib.enums import DefinitionKind
from soliplex.ingester.lib.models import Database, NotInitializedError
from soliplex.ingester.lib.models.transactions import Row
from soliplex.ingester.lib.wf.definitions import ParameterSet, WorkflowDefinition
from soliplex.ingester.lib.wf.errors import DefinitionError
from soliplex.ingester.lib.wf.stored_form import parameter_set_from_stored, workflow_from_stored

_log = logging.getLogger(__name__)

MOST_VERSIONS: Final = 20_000
"""Versions of workflows that are remembered. Beyond that, all are forgotten and read again when they are needed."""


class StoredDefinitions:
    """What this process knows of the definitions in one database."""

    def __init__(self) -> None:
        self.known_up_to = 0
        """The id of the newest definition when this process last looked."""
        self._versions: dict[int, WorkflowDefinition] = {}
        self._listening: dict[str, WorkflowDefinition] = {}
        self._parameter_sets: dict[str, ParameterSet] = {}

    def learn(self, rows: Sequence[Row], up_to: int) -> None:
        """Take in definitions that every process must know, in the order of their ids."""
        for row in rows:
            try:
                self._learn(row)
            except DefinitionError as exc:
                _log.error("%s %r, version %d, cannot be used: %s", row["kind"], row["slug"], row["version"], exc)
        self.known_up_to = max(self.known_up_to, up_to)

    def _learn(self, row: Row) -> None:
        known = self._parameter_sets if row["kind"] == DefinitionKind.PARAMS else self._listening
        if row["content"] is None:
            known.pop(row["slug"], None)
        elif row["kind"] == DefinitionKind.PARAMS:
            self._parameter_sets[row["slug"]] = parameter_set_from_stored(row["content"])
        else:
            self._listening[row["slug"]] = self.keep(row["id"], workflow_from_stored(row["content"]))

    def keep(self, definition_id: int, workflow: WorkflowDefinition) -> WorkflowDefinition:
        """Remember a version of a workflow."""
        if len(self._versions) >= MOST_VERSIONS:
            self._versions.clear()
        return self._versions.setdefault(definition_id, workflow)

    def version(self, definition_id: int) -> WorkflowDefinition | None:
        return self._versions.get(definition_id)

    def missing(self, definition_ids: Iterable[int | None]) -> set[int]:
        """Which of these versions this process has not read yet."""
        return {each for each in definition_ids if each is not None and each not in self._versions}

    def listening(self, workflow_id: str) -> WorkflowDefinition | None:
        return self._listening.get(workflow_id)

    def listening_workflows(self) -> list[WorkflowDefinition]:
        """The newest versions of the workflows that handle events."""
        return list(self._listening.values())

    def parameter_set(self, set_id: str) -> ParameterSet | None:
        return self._parameter_sets.get(set_id)

    def parameter_sets(self) -> dict[str, ParameterSet]:
        return dict(self._parameter_sets)


_by_database: Final[dict[int, StoredDefinitions]] = {}


def stored() -> StoredDefinitions:
    """What is known of the definitions in the database that is in use. Before one is open, that is nothing."""
    try:
        identity = Database.identity()
    except NotInitializedError:
        return StoredDefinitions()
    found = _by_database.get(identity)
    if found is None:
        if len(_by_database) > 100:  # noqa: PLR2004  a process that opens many one after the other: a test
            _by_database.clear()
        found = _by_database[identity] = StoredDefinitions()
    return found
