-- :name due_schedules
SELECT id, name, workflow_id, param_id, cron, time_zone, CAST(input AS text) AS input, priority, deadline_seconds, catch_up
  FROM schedule WHERE next_due_at IS NOT NULL AND next_due_at <= :now ORDER BY next_due_at LIMIT :limit;

-- :name advance_schedule
UPDATE schedule
   SET next_due_at = :next_due_at, last_due_at = :last_due_at, last_run_id = coalesce(CAST(:last_run_id AS bigint), last_run_id),
       missed = missed + :missed, status_message = :message
 WHERE id = :id;

-- :name set_next_due
UPDATE schedule SET next_due_at = :due WHERE name = :name RETURNING id;

-- :name delete_schedule
DELETE FROM schedule WHERE name = :name RETURNING id;
