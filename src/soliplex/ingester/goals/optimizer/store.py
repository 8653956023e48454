"""Optimizations and patterns in the database, and how far kinds of changes are to be trusted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from sqlmodel import col, select

from soliplex.ingester.goals.optimizer.comparing import Comparison
from soliplex.ingester.goals.optimizer.flow_changes import Change
from soliplex.ingester.goals.optimizer.tuning import Finding
from soliplex.ingester.goals.sql import SQL
from soliplex.ingester.lib.enums import Standing
from soliplex.ingester.lib.models import Database, FlowOptimization
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import to_json
from soliplex.ingester.lib.models.transactions import Script, json_of

SURE = 10
"""With this many samples the confidence is one half; with ten times as many it is about nine tenths."""


async def optimizations_of(slug: str) -> list[FlowOptimization]:
    """The optimizations of a flow, the newest first."""
    query = select(FlowOptimization).where(FlowOptimization.slug == slug).order_by(col(FlowOptimization.id).desc())
    async with Database.session(read_only=True) as session:
        return list((await session.exec(query.limit(100))).all())


async def keep_optimization(new: FlowOptimization) -> int:
    """Write down an optimization, and give its id. IntegrityError: another of this flow is being tried."""
    async with Database.session() as session:
        session.add(new)
        await session.commit()
        await session.refresh(new)
    assert new.id is not None
    return new.id


async def settle(optimization: FlowOptimization, found: Comparison) -> bool:
    """Write down what a comparison says. False: another process had done so before."""
    assert optimization.id is not None
    settled_at = None if found.standing is Standing.APPLIED else utcnow()
    facts = {**asdict(found), "standing": found.standing.value, "settled_at": settled_at}

    def script() -> Script[bool]:
        return bool((yield SQL.settle_optimization(id=optimization.id, **facts)))

    return await Database.transact(script())


async def save_patterns(slug: str, found: Sequence[tuple[Finding, float]]) -> None:
    """Write down what was found, with the confidence in each."""

    def script() -> Script[None]:
        for finding, confidence in sorted(found, key=lambda each: (each[0].step, each[0].kind)):
            yield SQL.save_pattern(
                slug=slug,
                step=finding.step,
                kind=finding.kind,
                current=to_json(finding.current),
                proposed=to_json(finding.proposed),
                samples=finding.samples,
                confidence=confidence,
                predicted_seconds=finding.saves,
                now=utcnow(),
            )

    if found:
        await Database.transact(script())


class Trust:
    """How far findings are to be trusted, by their samples and by what became of their kind before."""

    def __init__(self, kept: Counter[str], taken_back: Counter[str], refused: set[tuple[str, str, str]]) -> None:
        self._kept = kept
        self._taken_back = taken_back
        self._refused = refused

    def in_finding(self, finding: Finding) -> float:
        """The confidence in a finding, from 0 to 1."""
        kept, worse = self._kept[finding.kind], self._taken_back[finding.kind]
        record = (kept + 2) / (kept + worse + 2)
        return round(finding.samples / (finding.samples + SURE) * record, 3)

    def is_refused(self, change: Change) -> bool:
        """Whether this very change was made in this flow before, and was taken back."""
        return _key(change) in self._refused


async def trust_in(slug: str) -> Trust:
    """The trust that the optimizations of all flows have earned."""
    kept, taken_back, refused = Counter[str](), Counter[str](), set[tuple[str, str, str]]()
    for row in await Database.read(SQL.settled_optimizations()):
        changes = [Change(**each) for each in json_of(row, "changes")]
        is_kept = row["standing"] == Standing.KEPT
        (kept if is_kept else taken_back).update({change.kind for change in changes})
        if not is_kept and row["slug"] == slug:
            refused |= {_key(change) for change in changes}
    return Trust(kept, taken_back, refused)


def _key(change: Change) -> tuple[str, str, str]:
    return change.kind, change.step, json.dumps(change.value, sort_keys=True)
