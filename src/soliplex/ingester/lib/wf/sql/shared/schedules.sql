-- What is due. A schedule is ahead if its last due time is more than a little in the future: the clock of a worker was
-- wrong for a while, and the next due time may be years away. There are few schedules, so all of them are looked at.
-- :name due_schedules
SELECT id, name, workflow_id, param_id, cron, time_zone, CAST(input AS text) AS input, priority, deadline_seconds, catch_up,
       next_due_at > :now AS is_ahead
  FROM schedule
 WHERE next_due_at IS NOT NULL AND (next_due_at <= :now OR last_due_at > :ahead)
 ORDER BY next_due_at LIMIT :limit;

-- :name set_schedule_back
UPDATE schedule SET next_due_at = :due, last_due_at = NULL WHERE id = :id AND next_due_at > :now AND last_due_at > :now;

-- :name advance_schedule
UPDATE schedule
   SET next_due_at = :next_due_at, last_due_at = :last_due_at, last_run_id = coalesce(CAST(:last_run_id AS bigint), last_run_id),
       missed = missed + :missed, status_message = :message
 WHERE id = :id;

-- :name set_next_due
UPDATE schedule SET next_due_at = :due WHERE name = :name RETURNING id;

-- :name delete_schedule
DELETE FROM schedule WHERE name = :name RETURNING id;
