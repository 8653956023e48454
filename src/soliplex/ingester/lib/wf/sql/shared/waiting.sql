-- Steps that wait for a signal, and the signals that end their wait. Whoever pairs the two holds the run of the step and
-- then the key, so that a signal that comes while a step is being parked is seen by one of them.

-- :name insert_signal
INSERT INTO signal (key, payload, created_at, is_new) VALUES (:key, :payload, :now, true) RETURNING id;

-- :name any_new_signal
SELECT 1 FROM signal WHERE is_new LIMIT 1;

-- The oldest new signals, each with the step that it is for: the first signal of a key goes to the first step that waits
-- for it, the second to the second.
-- :name pair_new_signals
WITH fresh AS MATERIALIZED (
    SELECT id, key FROM signal WHERE is_new ORDER BY id LIMIT :limit
), numbered AS (
    SELECT id, key, row_number() OVER (PARTITION BY key ORDER BY id) AS number FROM fresh
), waiting AS (
    SELECT id, awaits, workflow_run_id, row_number() OVER (PARTITION BY awaits ORDER BY id) AS number FROM runstep
     WHERE awaits IS NOT NULL AND awaits IN (SELECT key FROM fresh)
)
SELECT n.id AS signal_id, n.key, w.id AS step_id, w.workflow_run_id
  FROM numbered n LEFT JOIN waiting w ON w.awaits = n.key AND w.number = n.number
 ORDER BY n.id;

-- As pair_new_signals, from the side of steps that were just parked, and over all signals.
-- :name pair_parked_steps
WITH parked AS MATERIALIZED (
    SELECT id, awaits, row_number() OVER (PARTITION BY awaits ORDER BY id) AS number FROM runstep
     WHERE awaits IS NOT NULL AND awaits {among keys}
), numbered AS (
    SELECT id, key, row_number() OVER (PARTITION BY key ORDER BY id) AS number FROM signal WHERE key {among keys}
)
SELECT n.id AS signal_id, p.id AS step_id FROM numbered n JOIN parked p ON p.awaits = n.key AND p.number = n.number
 WHERE p.id {among ids};

-- :name delete_signals
DELETE FROM signal WHERE id {among ids};

-- :name delete_signals_of_key
DELETE FROM signal WHERE key = :key;

-- :name shelve_signals
UPDATE signal SET is_new = false WHERE id {among ids};
