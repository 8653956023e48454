"""The workflows and parameter sets there are: read from files, kept up to date while they change, looked up by id.

Beside files and code there is a third place, the database (`wf/stored.py`): what this process knows of the parameter
sets there is found here, too.

A lookup costs a dictionary access and a look at the clock; at most twice a second it looks at the files as well. A file
that becomes invalid leaves its last good definition in use, so an unfortunate edit cannot stop runs under way. Where an
event loop would have to wait while much is read, a thread reads it, and until then lookups give what is known.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from typing import Final, NamedTuple, NoReturn

from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.wf import graph
from soliplex.ingester.lib.wf.definitions import (
    ParameterSet,
    StepDefinition,
    WorkflowDefinition,
    parameter_set_from_yaml,
    workflow_from_yaml,
)
from soliplex.ingester.lib.wf.errors import DefinitionError, UnknownDefinitionError
from soliplex.ingester.lib.wf.json_source import workflow_from_json_file
from soliplex.ingester.lib.wf.reading import JsonValue
from soliplex.ingester.lib.wf.stored import stored
from soliplex.ingester.lib.wf.yaml_source import LARGEST_FILE

SECONDS_BETWEEN_CHECKS: Final = 0.5
SECONDS_BETWEEN_MISSES: Final = 0.02
"""Where an id is not known, files are looked at again so soon: whoever asks for it may have just written its file."""
READ_AT_ONCE: Final = 16 << 10
"""Bytes of changed files that are read while an event loop waits: some milliseconds, whatever is in them."""
_YAML: Final = frozenset({".yaml", ".yml"})
_JSON: Final = frozenset({".json"})
_ID_LINE = re.compile(rb"^(?:id|[ \t{]*\"id\"):[ \t]*[\"']?([A-Za-z_][A-Za-z0-9_.-]*)", re.MULTILINE)

type Definition = WorkflowDefinition | ParameterSet

_log = logging.getLogger(__name__)


class Registry:
    """Looks up workflows and parameter sets by id. Safe to use from several threads."""

    def __init__(
        self,
        workflow_dir: Path | None,
        param_dir: Path | None,
        user_param_dir: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _require_directory("WORKFLOW_DIR", workflow_dir)
        _require_directory("PARAM_DIR", param_dir)
        self._workflow_files = [_Folder(workflow_dir, _read_workflow, suffixes=_YAML | _JSON)]
        self._parameter_files = [
            _Folder(param_dir, _read_app_parameters),
            # Made when the first set of a user's own is saved.
            _Folder(user_param_dir, _read_user_parameters, may_be_missing=True),
        ]
        self._registered: dict[str, WorkflowDefinition] = {}
        self._listening: dict[str, WorkflowDefinition] = {}
        """The registered workflows that handle events."""
        self._listening_files: list[WorkflowDefinition] = []
        self._workflows = _Index[WorkflowDefinition]("workflow")
        self._parameter_sets = _Index[ParameterSet]("parameter set")
        self._clock = clock
        self._lock = Lock()
        self._next_check = 0.0
        self.refresh()

    def workflow(self, workflow_id: str) -> WorkflowDefinition:
        """Give the workflow with this id; an id whose file is invalid raises that file's error."""
        self._refresh_when_due()
        found = self._registered.get(workflow_id) or self._workflows.by_id.get(workflow_id)
        if found is None:
            self._look_once_more()
        return found or self._workflows.by_id.get(workflow_id) or self._workflows.refuse(workflow_id)

    def find_workflow(self, workflow_id: str) -> WorkflowDefinition | None:
        """As `workflow`; None where neither a file nor code defines it.

        Asked for every run of a flow that is stored: looking for similar names would take longer than the flow's steps.
        """
        self._refresh_when_due()
        index = self._workflows
        found = self._registered.get(workflow_id) or index.by_id.get(workflow_id)
        return found or (self.workflow(workflow_id) if index.has_unusable(workflow_id) else None)

    def workflows(self) -> tuple[WorkflowDefinition, ...]:
        """Give all workflows, by id."""
        self._refresh_when_due()
        return _ordered({**self._workflows.by_id, **self._registered})

    def listening_workflows(self) -> list[WorkflowDefinition]:
        """Give the workflows that handle events."""
        self._refresh_when_due()
        in_files = [workflow for workflow in self._listening_files if workflow.id not in self._registered]
        known = {*self._workflows.by_id, *self._registered} if (others := stored().listening_workflows()) else set()
        return [*in_files, *self._listening.values(), *(each for each in others if each.id not in known)]

    def parameter_set(self, set_id: str) -> ParameterSet:
        """Give the parameter set with this id; an id whose file is invalid raises that file's error."""
        self._refresh_when_due()
        found = self._parameter_sets.by_id.get(set_id) or stored().parameter_set(set_id)
        if found is None:
            self._look_once_more()
        return found or self._parameter_sets.by_id.get(set_id) or self._parameter_sets.refuse(set_id)

    def parameter_sets(self) -> tuple[ParameterSet, ...]:
        """Give all parameter sets, by id."""
        self._refresh_when_due()
        return _ordered({**stored().parameter_sets(), **self._parameter_sets.by_id})

    def errors(self) -> Mapping[Path, DefinitionError]:
        """Give what is wrong, by file, now."""
        self._refresh_when_due()
        return {**self._workflows.errors, **self._parameter_sets.errors}

    def register(self, workflow: WorkflowDefinition) -> None:
        """Add a workflow made in code, or put it in the place of the one registered before under its id."""
        with self._lock:
            known = self._workflows.by_id.get(workflow.id)
            if known is not None and workflow.id not in self._registered:
                raise DefinitionError(f"the workflow {workflow.id!r} is already defined here", path=known.source_path)
            # Not indexed, only looked up first: of thousands of flows, each would index all the others anew.
            self._registered[workflow.id] = workflow
            if workflow.lifecycle_events:
                self._listening[workflow.id] = workflow
            else:
                self._listening.pop(workflow.id, None)

    def unregister(self, workflow_id: str) -> None:
        """Forget a workflow that was registered."""
        with self._lock:
            if self._registered.pop(workflow_id, None) is None:
                raise UnknownDefinitionError("registered workflow", workflow_id)
            self._listening.pop(workflow_id, None)
            # The index holds the workflow if files have changed since it was registered. A file may define the id, too.
            if workflow_id in self._workflows.by_id:
                self._rebuild()

    def refresh(self) -> None:
        """Look at the files now, for whoever has just changed one."""
        with self._lock:
            self._check_files()

    def refresh_after(self, change: Callable[[], None]) -> None:
        """Change a file, and look at the files at once: no other thread sees the change first and has to read it."""
        with self._lock:
            change()
            self._check_files()

    def _refresh_when_due(self) -> None:
        # One thread looks at the files; the others go on with what is known.
        if self._clock() >= self._next_check and self._lock.acquire(blocking=False):
            try:
                if _would_hold_a_loop() and self._bytes_to_read() > READ_AT_ONCE:
                    self._next_check = math.inf  # until the thread has read the files
                    Thread(target=self._refresh_apart, name="definitions", daemon=True).start()
                else:
                    self._check_files()
            except Exception:  # noqa: BLE001
                # Whoever asks for a definition must not suffer from what is the matter with the files.
                self._next_check = self._clock() + SECONDS_BETWEEN_CHECKS
                _log.exception("the definition files cannot be looked at; what was read before stays in use")
            finally:
                self._lock.release()

    def _look_once_more(self) -> None:
        """Before an id is refused: its file may have been written since the last look, by whoever asks for it now."""
        soon = self._next_check - SECONDS_BETWEEN_CHECKS + SECONDS_BETWEEN_MISSES
        self._next_check = min(self._next_check, soon)
        self._refresh_when_due()

    def _refresh_apart(self) -> None:
        try:
            self.refresh()
        except Exception:  # noqa: BLE001  as above
            _log.exception("the definition files cannot be looked at; what was read before stays in use")

    def _bytes_to_read(self) -> int:
        return sum(folder.bytes_to_read() for folder in self._folders)

    def _check_files(self) -> None:
        self._next_check = self._clock() + SECONDS_BETWEEN_CHECKS
        changes = sum(folder.check() for folder in self._folders)
        if changes:
            self._rebuild()

    @property
    def _folders(self) -> tuple[_Folder[WorkflowDefinition] | _Folder[ParameterSet], ...]:
        return (*self._workflow_files, *self._parameter_files)

    def _rebuild(self) -> None:
        self._workflows = _Index("workflow", tuple(self._registered.values()), self._workflow_files, self._workflows)
        self._listening_files = [one for one in self._workflows.by_id.values() if one.lifecycle_events]
        self._parameter_sets = _Index("parameter set", (), self._parameter_files, self._parameter_sets)


@dataclass(frozen=True, slots=True)
class CumulativeConfig:
    """A step's configuration together with all that came before it: artifacts are shared where it is the same."""

    step_type: str
    config: dict[str, JsonValue]
    cumulative_json: str


def effective_parameters(step: StepDefinition, params: ParameterSet | None) -> dict[str, JsonValue]:
    """Give the step's parameters, each overridden by the parameter set's entry for its key, or else for its type."""
    overrides: Mapping[str, JsonValue] = {}
    if params is not None:
        overrides = params.config.get(step.key, params.config.get(step.type, {}))
    # A handler may change what it is given; the definition serves every run.
    return {name: _copied(value) for name, value in {**step.parameters, **overrides}.items()}


def cumulative_configs(workflow: WorkflowDefinition, params: ParameterSet | None) -> dict[str, CumulativeConfig]:
    """Give for each step its configuration and, as canonical JSON, that of the step and all its ancestors by key."""
    dependencies = workflow.dependencies
    configs = {step.key: effective_parameters(step, params) for step in workflow.steps}
    return {
        step.key: CumulativeConfig(
            step.type,
            configs[step.key],
            canonical_json({key: configs[key] for key in (step.key, *graph.ancestors_of(step.key, dependencies))}),
        )
        for step in workflow.steps
    }


def canonical_json(value: JsonValue | Mapping[str, Mapping[str, JsonValue]]) -> str:
    """Write a value so that equal values give equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _copied(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


class _Signature(NamedTuple):
    """The facts about a file by which a change is noticed without reading it."""

    modified_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class _File[D: Definition]:
    """What the registry knows of one definition file."""

    signature: _Signature
    id: str
    """The definition's id, or the likeliest one of a file that was never valid."""
    definition: D | None
    """The last valid definition of the file."""
    error: DefinitionError | None


class _Folder[D: Definition]:
    """The definition files of one directory, and what was last read from each."""

    def __init__(
        self,
        directory: Path | None,
        read: Callable[[bytes, Path], D],
        *,
        suffixes: frozenset[str] = _YAML,
        may_be_missing: bool = False,
    ) -> None:
        self._directory = directory
        self._suffixes = suffixes
        self._read = read
        self._may_be_missing = may_be_missing
        self.files: dict[Path, _File[D]] = {}
        self.error: DefinitionError | None = None

    @property
    def definitions(self) -> Iterator[D]:
        return (file.definition for file in self.files.values() if file.definition is not None)

    @property
    def errors(self) -> Iterator[tuple[Path, DefinitionError]]:
        if self.error is not None and self._directory is not None:
            yield self._directory, self.error
        yield from ((path, file.error) for path, file in self.files.items() if file.error is not None)

    def check(self) -> bool:
        """Read files that are new or changed, forget those that are gone; say whether anything changed."""
        was_away = self.error is not None
        found = self._look()
        if found is None:
            return not was_away
        gone = self.files.keys() - found.keys()
        changed = self._changed(found)
        for path in gone:
            del self.files[path]
        for path in changed:
            self.files[path] = self._load(path, found[path])
        return bool(gone or changed or was_away)

    def bytes_to_read(self) -> int:
        """How many bytes are new or changed; 0 where the directory cannot be read."""
        try:
            found = {} if self._directory is None else _signatures(self._directory, self._suffixes)
        except OSError:
            return 0
        return sum(min(found[path].size, LARGEST_FILE) for path in self._changed(found))

    def _changed(self, found: Mapping[Path, _Signature]) -> list[Path]:
        return [path for path in sorted(found) if path not in self.files or self.files[path].signature != found[path]]

    def _look(self) -> dict[Path, _Signature] | None:
        if self._directory is None:
            return {}
        try:
            found = _signatures(self._directory, self._suffixes)
        except OSError as exc:
            if self._may_be_missing and isinstance(exc, FileNotFoundError):
                return {}
            # A share that is away for a moment must not take the definitions of all running work with it.
            problem = f"cannot be read ({exc.strerror}); what was read before stays in use"
            self.error = DefinitionError(problem, path=self._directory)
            return None
        self.error = None
        return found

    def _load(self, path: Path, signature: _Signature) -> _File[D]:
        # The signature was taken before the content: a change in between shows as another signature next time.
        content = b""
        try:
            content = _content(path)
            definition = self._read(content, path)
        except OSError as exc:
            return self._invalid(
                path, signature, content, DefinitionError(f"cannot be read ({exc.strerror})", path=path)
            )
        except DefinitionError as exc:
            return self._invalid(path, signature, content, exc)
        except Exception as exc:  # noqa: BLE001  whatever one file does to its reader, the others must stay in use
            error = DefinitionError(f"cannot be read ({type(exc).__name__}: {exc})", path=path)
            return self._invalid(path, signature, content, error)
        return _File(signature, definition.id, definition, None)

    def _invalid(self, path: Path, signature: _Signature, content: bytes, error: DefinitionError) -> _File[D]:
        before = self.files.get(path)
        if before is not None and before.definition is not None:
            return _File(signature, before.id, before.definition, error)
        written = _ID_LINE.search(content)
        return _File(signature, written[1].decode() if written else path.stem, None, error)


class _Index[D: Definition]:
    """The definitions in use by id, and why others are not. It is replaced, never changed."""

    def __init__(
        self,
        kind: str,
        registered: Iterable[D] = (),
        folders: Sequence[_Folder[D]] = (),
        before: _Index[D] | None = None,
    ) -> None:
        """Index what is there now; where ids clash, what comes first in the arguments is in use."""
        self._kind = kind
        self.by_id: dict[str, D] = {}
        self.errors: dict[Path, DefinitionError] = {}
        self._unusable: dict[str, DefinitionError] = {}
        self._settle(_claims(registered, folders), before.by_id if before else {})
        for folder in folders:
            self._add_errors(folder)
        self._log_what_is_new(before.errors if before else {})

    def has_unusable(self, definition_id: str) -> bool:
        """Whether a file that cannot be used should define this id."""
        return definition_id in self._unusable

    def refuse(self, definition_id: str) -> NoReturn:
        """Raise what is wrong with the file that should define this id, or that there is none."""
        if error := self._unusable.get(definition_id):
            # The same error is raised again and again: without this its traceback would grow each time.
            raise error.with_traceback(None)
        raise UnknownDefinitionError(self._kind, definition_id, self.by_id)

    def _add_errors(self, folder: _Folder[D]) -> None:
        self.errors.update(folder.errors)
        for file in folder.files.values():
            if file.error is not None and file.definition is None:
                self._unusable.setdefault(file.id, file.error)

    def _settle(self, claims: Mapping[str, list[_Claim[D]]], in_use: Mapping[str, D]) -> None:
        for definition_id, contenders in claims.items():
            winner = _winner(contenders, in_use.get(definition_id))
            if winner is not None:
                self.by_id[definition_id] = winner
            losers = [claim.definition for claim in contenders if claim.definition is not winner]
            for loser in losers:
                other = winner or next(claim.definition for claim in contenders if claim.definition is not loser)
                error = _clash(self._kind, loser, other)
                self._unusable.setdefault(definition_id, error)
                if loser.source_path is not None:
                    self.errors[loser.source_path] = error

    def _log_what_is_new(self, before: Mapping[Path, DefinitionError]) -> None:
        for path, error in self.errors.items():
            if path not in before or str(before[path]) != str(error):
                _log.error("a definition cannot be used: %s", "; ".join(str(error).splitlines()))


def _would_hold_a_loop() -> bool:
    """Whether this thread runs an event loop, for which others wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _ordered[D: Definition](by_id: Mapping[str, D]) -> tuple[D, ...]:
    return tuple(by_id[key] for key in sorted(by_id))


class _Claim[D: Definition](NamedTuple):
    rank: int
    definition: D


def _claims[D: Definition](registered: Iterable[D], folders: Iterable[_Folder[D]]) -> dict[str, list[_Claim[D]]]:
    claims: dict[str, list[_Claim[D]]] = {}
    layers = [registered, *(folder.definitions for folder in folders)]
    for rank, definitions in enumerate(layers):
        for definition in definitions:
            claims.setdefault(definition.id, []).append(_Claim(rank, definition))
    return claims


def _winner[D: Definition](contenders: list[_Claim[D]], in_use: D | None) -> D | None:
    """Choose the definition of the highest layer; among several there, the file that is in use already, or none."""
    best = [claim.definition for claim in contenders if claim.rank == contenders[0].rank]
    if len(best) == 1:
        return best[0]
    known = in_use.source_path if in_use is not None else None
    return next((definition for definition in best if definition.source_path == known), None)


def _clash(kind: str, loser: Definition, other: Definition) -> DefinitionError:
    match = _ID_LINE.search(loser.text.encode())
    line = loser.text.encode().count(b"\n", 0, match.start()) + 1 if match else None
    place = other.source_path or "code"
    problem = f"the {kind} {loser.id!r} is also defined in {place}; give each its own id"
    return DefinitionError(problem, path=loser.source_path, line=line, key="id")


def _require_directory(setting: str, directory: Path | None) -> None:
    if directory is None:
        return
    try:
        _signatures(directory, _YAML)
    except OSError as exc:
        raise ConfigurationError(
            setting,
            f"the directory {directory} cannot be read ({exc.strerror})",
            f"create it, or set {setting} to another",
        ) from exc


def _signatures(directory: Path, suffixes: frozenset[str]) -> dict[Path, _Signature]:
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    found: dict[Path, _Signature] = {}
    for path in (directory / name for name in names if not name.startswith(".")):
        if path.suffix in suffixes and (signature := _signature(path)):
            found[path] = signature
    return found


def _signature(path: Path) -> _Signature | None:
    try:
        status = path.stat()
    except OSError:  # gone since the directory was listed, or a link to nothing
        return None
    # Opening a pipe would wait for its other end.
    return _Signature(status.st_mtime_ns, status.st_size, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST_FILE + 1)


def _read_workflow(content: bytes, path: Path) -> WorkflowDefinition:
    read = workflow_from_json_file if path.suffix in _JSON else workflow_from_yaml
    return read(content, path=path)


def _read_app_parameters(content: bytes, path: Path) -> ParameterSet:
    return parameter_set_from_yaml(content, path=path, origin="app")


def _read_user_parameters(content: bytes, path: Path) -> ParameterSet:
    return parameter_set_from_yaml(content, path=path, origin="user")
