"""`OrchestratorOptimizer`: what a flow would do better with, and that as a version which is tried and compared."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, cast

from sqlalchemy.exc import IntegrityError

from soliplex.ingester.goals.optimizer import store
from soliplex.ingester.goals.optimizer.comparing import ENOUGH_RUNS, compared
from soliplex.ingester.goals.optimizer.findings import changes_of, findings, predicted_seconds, saved_by
from soliplex.ingester.goals.optimizer.flow_changes import (
    BASE,
    LEVEL_OF,
    LEVELS,
    OPTIMIZATION,
    Change,
    Level,
    apply_changes,
    hash_of,
)
from soliplex.ingester.goals.optimizer.measurements import Measurements, ended_runs, measure
from soliplex.ingester.goals.optimizer.store import Trust, optimizations_of, save_patterns, trust_in
from soliplex.ingester.goals.optimizer.tuning import Finding
from soliplex.ingester.goals.sql import SQL
from soliplex.ingester.lib.enums import DefinitionKind, Standing
from soliplex.ingester.lib.errors import ConflictError, InvalidInputError, NotFoundError
from soliplex.ingester.lib.models import Database, FlowOptimization
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.flows import Flow
from soliplex.ingester.lib.wf.operations.definitions import definition_versions, find_workflow, load_versions
from soliplex.ingester.lib.wf.stored import stored as known_versions
from soliplex.ingester.lib.wiring import current_wiring

ENOUGH_TO_RESTRUCTURE: Final = 100
"""Recorded executions of a flow before its graph is changed."""
SHARE_OF_TIME: Final = 0.05
"""The share of a process's time that studying one flow may take."""
MOST_STUDIED: Final = 10_000
type Optimizable = WorkflowDefinition | Flow | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """A proposal to change a flow, and why."""

    kind: str
    level: Level
    """The lowest level at which it is applied."""
    step: str | None
    """None: it is about the flow."""
    current: Any
    proposed: Any
    why: str
    samples: int
    """Executions it was concluded from."""
    confidence: float
    """From 0 to 1: by the samples, and by how often changes of this kind were kept."""
    predicted_seconds: float
    """What each run would save with this change alone."""
    is_applied: bool
    """Whether `optimize` would apply it now."""
    why_not: str | None
    """What keeps it from being applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A version that was made of recommendations, and what came of it."""

    id: int
    level: str
    standing: Standing
    changes: list[dict[str, Any]]
    predicted_speedup: float | None
    """How many times as fast a run was to become."""
    measured_speedup: float | None
    """How many times as fast it became; None until enough runs have ended."""
    measured_before: float | None
    measured_after: float | None
    runs_before: int
    runs_after: int
    verdict: str | None
    created_at: datetime
    settled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendations:
    """What the runs of a flow taught."""

    slug: str
    level: Level
    executions: int
    """Runs that were recorded, pruned ones included."""
    measured_runs: int
    """Runs that were looked at one by one."""
    typical_seconds: float | None
    """What half of the runs did not exceed."""
    predicted_before: float | None
    """What a run takes, worked out from its steps."""
    predicted_after: float | None
    """The same with all that would be applied."""
    confidence_threshold: float
    slots: int
    """How many steps at once were reckoned with."""
    recommendations: list[Recommendation]
    tried: list[Tried]
    """The newest first."""
    notes: list[str]
    """What keeps it from saying more."""


@dataclass(frozen=True, slots=True)
class _Study:
    """A flow, how it ran, and what follows."""

    flow: WorkflowDefinition
    measured: Measurements
    found: list[Finding]
    applicable: list[Finding]
    trust: Trust
    reasons: dict[int, str]
    """Why a finding is not applied, by its place."""
    slots: int

    @property
    def changes(self) -> list[Change]:
        return changes_of(self.applicable)

    def predicted(self, found: Sequence[Finding]) -> float:
        flow = apply_changes(self.flow, changes_of(found))
        return predicted_seconds(flow, self.measured, self.slots, saves=saved_by(found, self.flow.dependencies))

    @property
    def now(self) -> float:
        return predicted_seconds(self.flow, self.measured, self.slots)


class OrchestratorOptimizer:
    """Learns from runs."""

    @staticmethod
    async def optimize_workflow(
        workflow: Optimizable, level: Level | None = None, *, preserve_structure: bool | None = None
    ) -> WorkflowDefinition:
        """The workflow with what its runs taught. It is neither stored nor compared: `apply_optimization` does both.

        Steps and edges stay as they are unless `preserve_structure` is False, and the level `aggressive`.
        """
        flow = await _flow_of(workflow)
        wanted, preserves = chosen(level, preserve_structure)
        study = await _study(flow, wanted, preserves=preserves)
        return apply_changes(flow, study.changes)

    @staticmethod
    async def get_recommendations(
        workflow: Optimizable, level: Level | None = None, *, preserve_structure: bool | None = None
    ) -> Recommendations:
        """What the runs of the workflow taught, with reasons; and what came of what was tried."""
        flow = await _flow_of(workflow)
        wanted, preserves = chosen(level, preserve_structure)
        await settle_open(flow.id)
        study = await _study(flow, wanted, preserves=preserves)
        trusted = [(each, study.trust.in_finding(each)) for each in study.found]
        await save_patterns(flow.id, trusted)
        has_run = bool(study.measured.runs)
        return Recommendations(
            slug=flow.id,
            level=wanted,
            executions=study.measured.executions,
            measured_runs=len(study.measured.runs),
            typical_seconds=study.measured.typical_seconds,
            predicted_before=study.now if has_run else None,
            predicted_after=study.predicted(study.applicable) if has_run else None,
            confidence_threshold=_threshold(),
            slots=study.slots,
            recommendations=[_recommendation(study, place) for place in range(len(study.found))],
            tried=[_tried(each) for each in await optimizations_of(flow.id)],
            notes=_notes(study),
        )

    @staticmethod
    async def apply_optimization(
        workflow: Optimizable, level: Level | None = None, *, preserve_structure: bool | None = None
    ) -> Tried:
        """Store a version with what its runs taught. It is compared, and taken back if it made things worse."""
        flow = await _flow_of(workflow)
        wanted, preserves = chosen(level, preserve_structure)
        if flow.source_path is not None:
            raise ConflictError(f"{flow.id!r} is defined by {flow.source_path}; write the recommendations there")
        await settle_open(flow.id)
        if await Database.read(SQL.open_optimization(slug=flow.id)):
            raise ConflictError(f"an optimization of {flow.id!r} is being compared; wait until its runs have ended")
        flow = await _flow_of(workflow)
        study = await _study(flow, wanted, preserves=preserves)
        if not study.changes:
            raise InvalidInputError("level", f"{wanted!r} has nothing to apply to {flow.id!r}; see its recommendations")
        return _tried(await _try(study, flow, wanted))


class Studies:
    """When flows of goals were studied last in this process, so that it costs a small share of the time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._due: dict[tuple[int, str], float] = {}

    def are_due(self, slug: str) -> bool:
        return self.clock() >= self._due.get((Database.identity(), slug), 0.0)

    @contextmanager
    def timed(self, slug: str) -> Generator[None]:
        began = self.clock()
        yield
        if len(self._due) >= MOST_STUDIED:
            self._due.clear()
        ended = self.clock()
        self._due[Database.identity(), slug] = ended + (ended - began) / SHARE_OF_TIME


async def flow_to_run(
    base: WorkflowDefinition, level: Level, *, preserve_structure: bool, slots: int | None = None
) -> WorkflowDefinition:
    """The flow of a goal as it is to run next: as it was defined, or as its earlier runs taught.

    An optimization in use is compared first. A new one is tried only when none is being compared.
    """
    await settle_open(base.id)
    base_hash = hash_of(base)
    used = next((each for each in await optimizations_of(base.id) if _is_used(each, base_hash)), None)
    flow = base if used is None else _optimized(base, used)
    studies = current_wiring().kept(Studies)
    if (used is not None and used.settled_at is None) or not studies.are_due(base.id):
        return flow
    with studies.timed(base.id):
        study = await _study(flow, level, preserves=preserve_structure, slots=slots)
        await save_patterns(base.id, [(each, study.trust.in_finding(each)) for each in study.found])
    if not study.changes:
        return flow
    try:
        return _optimized(base, await _try(study, base, level, is_stored=False))
    except IntegrityError:
        return flow  # another process tries one at this moment


def _is_used(each: FlowOptimization, base_hash: str) -> bool:
    return each.base_hash == base_hash and each.standing in (Standing.APPLIED, Standing.KEPT)


def _optimized(base: WorkflowDefinition, used: FlowOptimization) -> WorkflowDefinition:
    changed = apply_changes(base, [Change(**each) for each in used.changes])
    return marked(changed, used)


def marked(flow: WorkflowDefinition, used: FlowOptimization) -> WorkflowDefinition:
    """The flow as it is stored: its runs tell which optimization they had."""
    return replace(flow, meta={**flow.meta, OPTIMIZATION: used.id, BASE: used.base_hash})


async def _try(study: _Study, base: WorkflowDefinition, level: Level, *, is_stored: bool = True) -> FlowOptimization:
    """Write down an optimization; of a stored flow, save it as the newest version, too."""
    past = await optimizations_of(base.id)
    previous_id = cast("int | None", study.flow.meta.get(OPTIMIZATION))
    previous = next((each for each in past if each.id == previous_id), None)
    inherited = [Change(**each) for each in previous.changes] if previous else []
    new = FlowOptimization(
        slug=base.id,
        level=level,
        base_hash=previous.base_hash if previous else hash_of(base),
        previous_id=previous_id,
        changes=[
            {"kind": each.kind, "step": each.step, "value": each.value} for each in _joined(inherited, study.changes)
        ],
        predicted_before=study.now,
        predicted_after=study.predicted(study.applicable),
    )
    new.id = await store.keep_optimization(new)
    if is_stored:
        changed = apply_changes(base, study.changes)
        await operations.save_workflow(marked(changed, new))
    return new


def _joined(before: Sequence[Change], new: Sequence[Change]) -> list[Change]:
    """All changes; of two of the same value of a step, the newer."""
    single = {(each.kind, each.step) for each in new if each.kind not in ("redundant_edge", "merge")}
    return [*(each for each in before if (each.kind, each.step) not in single), *new]


async def settle_open(slug: str) -> None:
    """Compare what is being tried in this flow, and take it back if it made things worse."""
    rows = await Database.read(SQL.open_optimization(slug=slug))
    tried = next((each for each in await optimizations_of(slug) if rows and each.id == rows[0]["id"]), None)
    if tried is None:
        return
    runs = await ended_runs(slug)
    before = [run for run in runs if run.optimization == tried.previous_id and run.base_hash == tried.base_hash]
    after = [run for run in runs if run.optimization == tried.id]
    found = compared(before, after)
    stored = await _stored(slug)
    if stored is not None and not stored.is_internal and stored.meta.get(OPTIMIZATION) != tried.id:
        found = replace(found, standing=Standing.SUPERSEDED, verdict="the flow was defined anew in the meantime")
    if await store.settle(tried, found) and found.standing is Standing.TAKEN_BACK and stored is not None:
        await _take_back(stored, tried)


async def settle_all() -> None:
    """Compare whatever is being tried. A duty of the workers does this, so that what is worse goes by itself."""
    for row in await Database.read(SQL.slugs_with_open_optimizations(limit=100)):
        await settle_open(row["slug"])


async def _stored(slug: str) -> WorkflowDefinition | None:
    try:
        return await find_workflow(slug)
    except NotFoundError:
        return None


async def _take_back(stored: WorkflowDefinition, tried: FlowOptimization) -> None:
    """Store the version before as the newest. The flow of a goal is made anew for each run, and needs none."""
    if stored.is_internal:
        return
    versions = [each for each in await definition_versions(DefinitionKind.WORKFLOW, stored.id) if not each.is_deleted]
    for version in reversed(versions):
        await load_versions([version.id])
        known = known_versions().version(version.id)
        if known is not None and known.meta.get(OPTIMIZATION) == tried.previous_id and not version.is_draft:
            await operations.save_workflow(known)
            return


async def _study(flow: WorkflowDefinition, level: Level, *, preserves: bool, slots: int | None = None) -> _Study:
    measured = await measure(flow.id, flow.dependencies)
    known = slots or current_wiring().settings.worker_task_count
    found = findings(flow, measured, known)
    trust = await trust_in(flow.id)
    reasons = {
        place: reason
        for place, each in enumerate(found)
        if (reason := _why_not(each, level, preserves, measured.executions, trust)) is not None
    }
    applicable = [each for place, each in enumerate(found) if place not in reasons]
    return _Study(flow, measured, found, applicable, trust, reasons, known)


def _why_not(found: Finding, level: Level, preserves: bool, executions: int, trust: Trust) -> str | None:  # noqa: FBT001
    if found.kind == "parallelism":
        return "the slots of workers are set by WORKER_TASK_COUNT, those of a goal by max_parallel; set them so"
    wanted = LEVEL_OF[found.kind]
    if LEVELS.index(wanted) > LEVELS.index(level):
        return f"the level is {level}; this needs {wanted}"
    if wanted == "aggressive" and preserves:
        return "steps and edges are to stay as they are (preserve_structure)"
    if wanted == "aggressive" and executions < ENOUGH_TO_RESTRUCTURE:
        return f"{executions} of {ENOUGH_TO_RESTRUCTURE} executions are recorded"
    (change,) = changes_of([found])
    if trust.is_refused(change):
        return "it was tried, and taken back"
    confidence = trust.in_finding(found)
    return f"the confidence of {confidence} is below {_threshold()}" if confidence < _threshold() else None


def _threshold() -> float:
    return current_wiring().settings.orchestrator_optimization_confidence


def chosen(level: Level | None, preserve_structure: bool | None) -> tuple[Level, bool]:  # noqa: FBT001  as given
    """The level, and whether the structure is preserved: as given, or else as the settings say."""
    settings = current_wiring().settings
    wanted = settings.orchestrator_optimization_level if level is None else level
    if wanted not in LEVELS:
        raise InvalidInputError("optimization_level", f"is {wanted!r}; give one of {', '.join(LEVELS)}")
    preserves = settings.orchestrator_optimization_preserve_structure
    return wanted, preserves if preserve_structure is None else preserve_structure


async def _flow_of(workflow: Optimizable) -> WorkflowDefinition:
    match workflow:
        case Flow():
            return workflow.definition()
        case WorkflowDefinition():
            return workflow
        case str():
            return await find_workflow(workflow)
        case _:  # pyright: ignore[reportUnnecessaryComparison]  users may err
            raise InvalidInputError("workflow", f"is {workflow!r}; give a Flow, a definition or a slug")


def _recommendation(study: _Study, place: int) -> Recommendation:
    found = study.found[place]
    alone = [] if found.kind == "parallelism" else [found]
    return Recommendation(
        kind=found.kind,
        level=LEVEL_OF[found.kind],
        step=found.step or None,
        current=found.current,
        proposed=found.proposed,
        why=found.why,
        samples=found.samples,
        confidence=study.trust.in_finding(found),
        predicted_seconds=round(max(0.0, study.now - study.predicted(alone)), 6),
        is_applied=place not in study.reasons,
        why_not=study.reasons.get(place),
    )


def _tried(each: FlowOptimization) -> Tried:
    assert each.id is not None
    return Tried(
        id=each.id,
        level=each.level,
        standing=each.standing,
        changes=each.changes,
        predicted_speedup=_ratio(each.predicted_before, each.predicted_after),
        measured_speedup=_ratio(each.measured_before, each.measured_after)
        if min(each.runs_before, each.runs_after) >= ENOUGH_RUNS
        else None,
        measured_before=each.measured_before,
        measured_after=each.measured_after,
        runs_before=each.runs_before,
        runs_after=each.runs_after,
        verdict=each.verdict,
        created_at=each.created_at,
        settled_at=each.settled_at,
    )


def _ratio(before: float | None, after: float | None) -> float | None:
    if not before or not after or not math.isfinite(before / after):
        return None
    return round(before / after, 3)


def _notes(study: _Study) -> list[str]:
    notes: list[str] = []
    if not study.measured.runs:
        notes.append("no run of this flow has ended yet")
    elif study.measured.executions < ENOUGH_TO_RESTRUCTURE:
        notes.append(
            f"{study.measured.executions} executions are recorded; the graph is changed from {ENOUGH_TO_RESTRUCTURE} on"
        )
    repeated = [
        step.key for step in study.flow.steps if (found := study.measured.steps.get(step.key)) and found.is_repeated
    ]
    if repeated:
        notes.append(f"no timeout is proposed for {', '.join(repeated)}: they ask to be called again")
    return notes
