"""What must hold of the engine's rows after every transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.statements import Statement
from soliplex.ingester.lib.models.transactions import single

_FINAL = "('COMPLETED', 'FAILED', 'CANCELLED')"
_OPEN = "('PENDING', 'ERROR', 'RUNNING')"
_HOLDS_UP = "d.status <> 'COMPLETED' AND NOT (d.status = 'FAILED' AND d.optional)"
_UNMET = f"""(SELECT count(*) FROM runstepdependency e JOIN runstep d ON d.id = e.depends_on_id
               WHERE e.step_id = s.id AND {_HOLDS_UP})"""


def _runs(condition: str) -> str:
    return f"(SELECT count(*) FROM workflowrun r WHERE r.run_group_id = g.id AND {condition})"


def _steps(condition: str) -> str:
    return f"(SELECT count(*) FROM runstep s WHERE s.workflow_run_id = r.id AND {condition})"


INVARIANTS: Final[dict[str, str]] = {
    "a run counts its unfinished steps": f"""
        SELECT r.id FROM workflowrun r
         WHERE r.remaining_steps <> {_steps(f"s.parent_step_id IS NULL AND s.status IN {_OPEN}")}""",
    "a run counts its failed steps": f"""
        SELECT r.id FROM workflowrun r
         WHERE r.failed_steps <> {_steps("s.parent_step_id IS NULL AND s.status = 'FAILED' AND NOT s.optional")}""",
    "a final run has no unfinished step or task": f"""
        SELECT r.id FROM workflowrun r WHERE r.status IN {_FINAL} AND {_steps(f"s.status IN {_OPEN}")} > 0""",
    "a run whose steps have all ended is final": f"""
        SELECT r.id FROM workflowrun r WHERE r.status NOT IN {_FINAL} AND r.remaining_steps = 0""",
    "a run ends FAILED, CANCELLED or COMPLETED as its steps say": f"""
        SELECT r.id FROM workflowrun r WHERE r.status IN {_FINAL} AND r.status <>
               CASE WHEN r.failed_steps > 0 OR r.cancel_requested_at >= r.deadline THEN 'FAILED'
                    WHEN r.cancel_requested_at IS NOT NULL THEN 'CANCELLED'
                    ELSE 'COMPLETED' END""",
    "a step waits for as many dependencies as are not done": f"""
        SELECT s.id FROM runstep s
         WHERE s.parent_step_id IS NULL AND s.status IN ('PENDING', 'ERROR') AND s.remaining_deps <> {_UNMET}""",
    "a step that is executed waits for no dependency": f"""
        SELECT s.id FROM runstep s WHERE s.lease_token IS NOT NULL AND {_UNMET} > 0""",
    "a map step waits for as many tasks as are not done": f"""
        SELECT s.id FROM runstep s
         WHERE s.remaining_tasks <> CASE WHEN s.status <> 'RUNNING' OR s.lease_token IS NOT NULL THEN 0 ELSE
               (SELECT count(*) FROM runstep t WHERE t.parent_step_id = s.id AND t.status IN {_OPEN}) END""",
    "a map step that waits for its tasks counts those that failed": """
        SELECT s.id FROM runstep s
         WHERE s.status = 'RUNNING' AND s.lease_token IS NULL AND s.failed_tasks <>
               (SELECT count(*) FROM runstep t WHERE t.parent_step_id = s.id AND t.status = 'FAILED')""",
    "a map step that completed put up with as many failures as it has": """
        SELECT s.id FROM runstep s WHERE s.status = 'COMPLETED' AND
               (SELECT count(*) FROM runstep t WHERE t.parent_step_id = s.id AND t.status = 'FAILED')
               > coalesce(s.max_failures, 0)""",
    "tasks are numbered without gaps": """
        SELECT t.parent_step_id FROM runstep t WHERE t.parent_step_id IS NOT NULL
         GROUP BY t.parent_step_id HAVING count(*) <> max(t.item_index) + 1 OR min(t.item_index) <> 0""",
    "an unfinished task has a parent that runs, in the same run": f"""
        SELECT t.id FROM runstep t JOIN runstep p ON p.id = t.parent_step_id
         WHERE (t.status IN {_OPEN} AND p.status <> 'RUNNING') OR t.workflow_run_id <> p.workflow_run_id""",
    "a leased step has a worker and a run and group that run": """
        SELECT s.id FROM runstep s
          JOIN workflowrun r ON r.id = s.workflow_run_id JOIN rungroup g ON g.id = r.run_group_id
         WHERE s.lease_token IS NOT NULL AND (s.worker_id IS NULL OR r.status <> 'RUNNING' OR g.status <> 'RUNNING')""",
    "an unfinished run has a step that can be claimed, now or later, or is executed": f"""
        SELECT r.id FROM workflowrun r WHERE r.status NOT IN {_FINAL} AND NOT EXISTS (
            SELECT 1 FROM runstep s WHERE s.workflow_run_id = r.id AND (s.lease_token IS NOT NULL
                OR (s.status IN ('PENDING', 'ERROR') AND s.remaining_deps = 0 AND s.remaining_tasks = 0)))""",
    "a step that waits for a signal is neither ready nor begun nor ended": """
        SELECT s.id FROM runstep s WHERE s.awaits IS NOT NULL AND (s.status <> 'PENDING' OR s.available_at IS NULL)""",
    "no signal lies on the shelf while a step waits for it": """
        SELECT g.id FROM signal g JOIN runstep s ON s.awaits = g.key WHERE NOT g.is_new""",
    "a step that waits for a run waits for one that goes on, or whose end it is about to hear of": """
        SELECT s.id FROM runstep s WHERE s.awaits LIKE ':subflow:%'
           AND NOT EXISTS (SELECT 1 FROM workflowrun r
                            WHERE r.run_key = s.awaits AND r.parent_step_id = s.id AND r.completed_date IS NULL)
           AND NOT EXISTS (SELECT 1 FROM signal g WHERE g.key = s.awaits)""",
    "a group counts its runs": f"""
        SELECT g.id FROM rungroup g
         WHERE g.total_runs <> {_runs("1 = 1")} OR g.remaining_runs <> {_runs(f"r.status NOT IN {_FINAL}")}
            OR g.failed_runs <> {_runs("r.status = 'FAILED'")}
            OR g.cancelled_runs <> {_runs("r.status = 'CANCELLED'")}""",
    # A group that ended, and has lost all its runs to the deletion of their documents since, keeps its status.
    "a group is final if and only if its runs are": f"""
        SELECT g.id FROM rungroup g
         WHERE (g.status IN {_FINAL}) <> ({_runs(f"r.status NOT IN {_FINAL}")} = 0
               AND (g.total_runs > 0 OR g.completed_date IS NOT NULL))""",
    "a group ends FAILED, CANCELLED or COMPLETED as its runs say": f"""
        SELECT g.id FROM rungroup g WHERE g.status IN {_FINAL} AND g.status <>
               CASE WHEN g.failed_runs > 0 THEN 'FAILED' WHEN g.cancelled_runs > 0 THEN 'CANCELLED'
                    ELSE 'COMPLETED' END""",
    # Each call of a driver has a moment of its own, so the moment names the completion.
    "a group that ends says so exactly once": f"""
        SELECT g.id FROM rungroup g WHERE g.status IN {_FINAL} AND 1 <>
               (SELECT count(DISTINCT e.id) FROM lifecyclehistory e WHERE e.run_group_id = g.id
                   AND e.event = 'group_end' AND e.start_date = g.completed_date
                   AND coalesce(e.handler_name, '') = (SELECT coalesce(min(f.handler_name), '') FROM lifecyclehistory f
                        WHERE f.run_group_id = g.id AND f.event = 'group_end'))""",
    "a run that fails says so exactly once": """
        SELECT r.id FROM workflowrun r WHERE r.status IN ('FAILED', 'CANCELLED') AND 1 <>
               (SELECT count(*) FROM lifecyclehistory e WHERE e.workflow_run_id = r.id
                   AND e.start_date = r.completed_date AND e.event = 'item_failed'
                   AND coalesce(e.handler_name, '') = (SELECT coalesce(min(f.handler_name), '') FROM lifecyclehistory f
                        WHERE f.workflow_run_id = r.id AND f.event = e.event))""",
    # Only where a handler asks for it; the group of a run that has one ends with as many as it completed.
    "a run that completes says so once": """
        SELECT min(e.id) FROM lifecyclehistory e JOIN workflowrun r ON r.id = e.workflow_run_id
         WHERE e.event = 'item_end' AND e.start_date = r.completed_date
         GROUP BY e.workflow_run_id, e.handler_name HAVING count(*) > 1""",
    # A hard retry leaves the lock to a worker that lives, until that has stopped.
    "a worker's lock has a running step under its lease, or its worker lives": """
        SELECT coalesce(l.step_id, 0) FROM resourcelock l WHERE l.holder_kind = 'worker' AND NOT EXISTS (
            SELECT 1 FROM runstep s WHERE s.status = 'RUNNING' AND s.lease_token = l.holder_id) AND NOT EXISTS (
            SELECT 1 FROM workercheckin w WHERE w.id = l.holder_meta ->> 'worker_id')""",
    "the steps of a resource run under one lease": """
        SELECT min(s.id) FROM runstep s WHERE s.lease_token IS NOT NULL AND s.resource_key IS NOT NULL
         GROUP BY s.resource_key HAVING count(DISTINCT s.lease_token) > 1""",
}
"""What must hold after every transaction: each query finds the rows for which it does not."""

_ALL_AT_ONCE: Final = "WITH {} {}".format(
    ", ".join(f"q{number} (id) AS ({query})" for number, query in enumerate(INVARIANTS.values())),
    " UNION ALL ".join(
        "SELECT '{}' AS name, id FROM q{}".format(name.replace("'", "''"), number)
        for number, name in enumerate(INVARIANTS)
    ),
)
_CHECK: Final = Statement("invariants", _ALL_AT_ONCE, _ALL_AT_ONCE, ())


async def assert_consistent(database: type[Database] = Database, *, but: Sequence[str] = ()) -> None:
    """See that every invariant holds; `but` names those the test has broken on purpose."""
    broken: dict[str, list[int]] = {}
    for row in await database.transact(single(_CHECK())):
        if row["name"] not in but:
            broken.setdefault(row["name"], []).append(row["id"])
    assert not broken, broken
