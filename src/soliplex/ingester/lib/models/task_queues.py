"""Queues of pgmq that steps are sent to, and the SQL functions with which workers in any language finish them.

    task_input(step_state_id, step_task_id)             what the step is given
    complete_task(step_state_id, step_task_id, output)  the work is done
    fail_task(step_state_id, step_task_id, reason)      the attempt failed

    open_task_queue(queue, at)                          the engine's: steps are sent to this queue
    fail_lost_tasks(queue, at, patience, most)          the engine's: no worker finishes these any more

Those that finish tasks do no more than record a signal for the step, which waits for it under a key that names its
message. So a step whose message was sent anew, or that was cancelled, cannot be finished by whoever holds the older
message. PostgreSQL alone has these functions; none of them needs pgmq before it is called.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy import event
from sqlmodel import Field

from soliplex.ingester.lib.models.base import Table, metadata
from soliplex.ingester.lib.models.columns import UtcDateTime, utcnow


class TaskQueue(Table, table=True):
    """A queue of pgmq that steps were sent to: workers look there for tasks that were lost."""

    name: str = Field(primary_key=True)
    created_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)


_VALUE_OF: Final = """
CREATE FUNCTION value_of(value jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF value IS NULL OR CAST(value AS text) NOT LIKE '%":payload":%' THEN
        RETURN value;
    ELSIF jsonb_typeof(value) = 'array' THEN
        RETURN (SELECT jsonb_agg(value_of(item) ORDER BY place)
                  FROM jsonb_array_elements(value) WITH ORDINALITY AS x (item, place));
    ELSIF value ? ':payload' THEN
        RETURN (SELECT CAST(p.content AS jsonb) FROM payload p WHERE p.id = CAST(value ->> ':payload' AS bigint));
    END IF;
    RETURN (SELECT jsonb_object_agg(name, value_of(member)) FROM jsonb_each(value) AS x (name, member));
END $$
"""
"""A value with contents in place of references to payloads (`wf/references.py`)."""

_TASK_INPUT: Final = """
CREATE FUNCTION task_input(step_state_id bigint, step_task_id bigint) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE jsonb_typeof(coalesce(given.value, 'null')) WHEN 'object' THEN given.value WHEN 'null' THEN '{}'
                ELSE jsonb_build_object('input', given.value) END
           || coalesce((SELECT jsonb_object_agg(d.workflow_step_name, value_of(d.output))
                          FROM runstepdependency e JOIN runstep d ON d.id = e.depends_on_id WHERE e.step_id = $1), '{}')
           || CASE WHEN $2 IS NULL THEN '{}' ELSE jsonb_build_object('item', value_of(s.input)) END
      FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id
           CROSS JOIN LATERAL (SELECT value_of(r.input) AS value) AS given
     WHERE s.id = coalesce($2, $1)
$$
"""

_SETTLE_TASK: Final = """
CREATE FUNCTION settle_task(step_state_id bigint, step_task_id bigint, outcome jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    task bigint := coalesce(step_task_id, step_state_id);
    wanted text;
    place text;
    message jsonb := '{}';
BEGIN
    SELECT s.awaits INTO wanted FROM runstep s
     WHERE s.id = task AND s.awaits LIKE ':queue:%'
       AND s.parent_step_id IS NOT DISTINCT FROM CASE WHEN step_task_id IS NOT NULL THEN step_state_id END;
    -- As everywhere: who decides from the signals of a key holds the key to the end of the transaction.
    PERFORM pg_advisory_xact_lock(hashtextextended('soliplex-signal:' || wanted, 0));
    IF wanted IS NULL OR NOT EXISTS (SELECT 1 FROM runstep s WHERE s.id = task AND s.awaits = wanted)
       OR EXISTS (SELECT 1 FROM signal g WHERE g.key = wanted) THEN
        RAISE NOTICE 'task % waits for no worker: it was finished, cancelled or sent anew; nothing was changed', task;
        RETURN false;
    END IF;
    place := format('pgmq.%I', 'q_' || split_part(wanted, ':', 3));
    IF to_regclass(place) IS NOT NULL THEN
        EXECUTE 'DELETE FROM ' || place || ' q WHERE msg_id = $1 RETURNING to_jsonb(q)'
           INTO message USING CAST(split_part(wanted, ':', 4) AS bigint);
    END IF;
    INSERT INTO signal (key, payload, created_at, is_new)
    VALUES (wanted, outcome || jsonb_build_object('since', message -> 'last_read_at',
                                                  'attempts', greatest(CAST(message ->> 'read_ct' AS int), 1)),
            clock_timestamp(), true);
    PERFORM pg_notify('soliplex_work', '[":signals"]');
    RETURN true;
END $$
"""

_COMPLETE_TASK: Final = """
CREATE FUNCTION complete_task(step_state_id bigint, step_task_id bigint, output jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF CAST(output AS text) LIKE '%":payload":%' THEN
        RAISE EXCEPTION 'output: has the key ":payload", which is kept for references; rename it'
              USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN settle_task(step_state_id, step_task_id, jsonb_build_object(':task', 'completed', 'output', output));
END $$
"""

_FAIL_TASK: Final = """
CREATE FUNCTION fail_task(step_state_id bigint, step_task_id bigint, reason text) RETURNS boolean LANGUAGE sql AS $$
    SELECT settle_task($1, $2, jsonb_build_object(':task', 'failed', 'reason', $3))
$$
"""

# The index holds only messages that were read, so lost messages are found without looking at all that wait.
_OPEN_TASK_QUEUE: Final = """
CREATE FUNCTION open_task_queue(queue text, at timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgmq.create(queue);
    EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON pgmq.%I (vt) WHERE read_ct > 0',
                   'q_' || queue || '_read_idx', 'q_' || queue);
    INSERT INTO taskqueue (name, created_at) VALUES (queue, at) ON CONFLICT DO NOTHING;
END $$
"""

# A message that was read, and is visible again, has lost its worker: pgmq gives it to the next. Here end those for
# which there is to be no next: the step has had all its attempts, or does not wait for the message any more. A message
# that was deleted by hand would leave its step waiting for ever: after some patience, that is a failed attempt too.
_FAIL_LOST_TASKS: Final = """
CREATE FUNCTION fail_lost_tasks(queue text, at timestamptz, patience interval, most int) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    kept bigint[];
    told bigint;
BEGIN
    IF to_regclass(format('pgmq.%I', 'q_' || queue)) IS NULL THEN
        RETURN 0;
    END IF;
    EXECUTE format($query$
        WITH lost AS MATERIALIZED (
            SELECT q.msg_id, s.awaits, q.read_ct FROM pgmq.%1$I q LEFT JOIN runstep s ON s.awaits = %2$L || q.msg_id
             WHERE q.read_ct > 0 AND q.vt <= $1
               AND (s.retry + q.read_ct >= s.retries
                    OR s.id IS NULL AND q.message ?& ARRAY['workflow_run_id', 'step_state_id'])
             ORDER BY q.vt LIMIT $3 FOR UPDATE OF q SKIP LOCKED
        ), held AS MATERIALIZED (
            SELECT * FROM lost
             WHERE awaits IS NULL OR pg_try_advisory_xact_lock(hashtextextended('soliplex-signal:' || awaits, 0))
        ), gone AS MATERIALIZED (
            SELECT s.awaits FROM runstep s
             WHERE s.awaits IS NOT NULL AND starts_with(s.awaits, %2$L) AND s.status_date <= $1 - $2
               AND NOT EXISTS (SELECT 1 FROM pgmq.%1$I q WHERE s.awaits = %2$L || q.msg_id)
               AND pg_try_advisory_xact_lock(hashtextextended('soliplex-signal:' || s.awaits, 0))
             LIMIT $3
        ), ended AS (
            SELECT awaits, jsonb_build_object(':task', 'failed', 'attempts', read_ct, 'reason',
                       format('lost: read %%s times, never finished within its visibility timeout', read_ct)) AS told
              FROM held WHERE awaits IS NOT NULL
            UNION ALL
            SELECT awaits, jsonb_build_object(':task', 'failed', 'attempts', 1, 'reason',
                       'its message is gone from the queue, and nobody has finished it') FROM gone
        ), recorded AS (
            INSERT INTO signal (key, payload, created_at, is_new)
            SELECT awaits, told, $1, true FROM ended WHERE NOT EXISTS (SELECT 1 FROM signal g WHERE g.key = awaits)
            RETURNING 1
        )
        SELECT (SELECT array_agg(msg_id) FROM held), (SELECT count(*) FROM recorded)
    $query$, 'q_' || queue, ':queue:' || queue || ':') INTO kept, told USING at, patience, most;
    IF kept IS NOT NULL THEN
        PERFORM pgmq.archive(queue, kept);
    END IF;
    RETURN told;
END $$
"""

FUNCTIONS: Final[dict[str, str]] = {
    "value_of(jsonb)": _VALUE_OF,
    "task_input(bigint, bigint)": _TASK_INPUT,
    "settle_task(bigint, bigint, jsonb)": _SETTLE_TASK,
    "complete_task(bigint, bigint, jsonb)": _COMPLETE_TASK,
    "fail_task(bigint, bigint, text)": _FAIL_TASK,
    "open_task_queue(text, timestamptz)": _OPEN_TASK_QUEUE,
    "fail_lost_tasks(text, timestamptz, interval, int)": _FAIL_LOST_TASKS,
}
"""How each is made, by its signature, in an order in which none names one that is not there yet."""


def _attach() -> None:
    for signature, made in FUNCTIONS.items():
        create, drop = made.replace("%", "%%"), f"DROP FUNCTION IF EXISTS {signature}"
        event.listen(metadata, "after_create", sa.DDL(create).execute_if(dialect="postgresql"))
        event.listen(metadata, "before_drop", sa.DDL(drop).execute_if(dialect="postgresql"))


_attach()
