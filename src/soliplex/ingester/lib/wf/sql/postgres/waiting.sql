-- PostgreSQL reads JSON as typed records. A step that was sent to a queue is still in its attempt.
-- :name park_steps
UPDATE runstep
   SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL, retry = coalesce(x.retry, 0),
       repeats = repeats + CASE WHEN x.retry IS NULL THEN 1 ELSE 0 END, state = x.state, answer = NULL,
       awaits = x.awaits, available_at = x.available_at AT TIME ZONE 'UTC', status_message = x.message
  FROM jsonb_to_recordset(CAST(:results AS jsonb))
       AS x (id bigint, lease text, state jsonb, awaits text, available_at timestamp, message text, retry int)
 WHERE runstep.id = x.id AND lease_token = x.lease
RETURNING runstep.id, workflow_run_id, parent_step_id, worker_id, resource_key, step_type, priority, runstep.awaits,
          runstep.available_at;

-- Locked to the end of the transaction, in the order of keys, so that two that park steps cannot wait for one another.
-- :name hold_keys
SELECT pg_advisory_xact_lock(hashtextextended('soliplex-signal:' || key, 0))
  FROM (SELECT key FROM unnest(CAST(:keys AS text[])) AS key ORDER BY key) AS ordered;

-- As hold_keys, without waiting: whoever holds a key may be waiting for a run that the one who asks here holds.
-- :name try_to_hold_keys
SELECT key FROM unnest(CAST(:keys AS text[])) AS key
 WHERE pg_try_advisory_xact_lock(hashtextextended('soliplex-signal:' || key, 0));

-- PostgreSQL reads JSON as typed records.
-- :name resume_steps
UPDATE runstep
   SET awaits = NULL, available_at = NULL, answer = s.payload, status_date = :now, status_message = NULL
  FROM jsonb_to_recordset(CAST(:pairs AS jsonb)) AS x (signal_id bigint, step_id bigint)
       JOIN signal s ON s.id = x.signal_id
 WHERE runstep.id = x.step_id AND runstep.awaits = s.key
RETURNING runstep.id, workflow_run_id, step_type, priority;
