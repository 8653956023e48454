-- Nothing joins a group that was cancelled: from here on it only shrinks.
-- :name request_deletion
UPDATE rungroup
   SET delete_requested_at = :now, cancel_requested_at = coalesce(cancel_requested_at, :now),
       status_message = 'is being deleted'
 WHERE id = :group_id
RETURNING id;

-- As request_deletion, for a group that has ended and has not begun anew since it was looked at.
-- :name request_pruning
UPDATE rungroup
   SET delete_requested_at = :now, cancel_requested_at = coalesce(cancel_requested_at, :now),
       status_message = 'is being pruned'
 WHERE id = :group_id AND completed_date IS NOT NULL AND delete_requested_at IS NULL
RETURNING id;

-- :name unfinished_deletions
SELECT id, status_message = 'is being pruned' AS is_pruned FROM rungroup
 WHERE delete_requested_at IS NOT NULL AND delete_requested_at < :before
 ORDER BY id LIMIT 100;

-- Groups that have ended, the one that ended first before all others.
-- :name groups_by_end
SELECT g.id, g.workflow_definition_id, g.completed_date, g.total_runs,
       EXISTS (SELECT 1 FROM lifecyclehistory e
                WHERE e.run_group_id = g.id AND e.status IN ('PENDING', 'ERROR', 'RUNNING')) AS has_deliveries
  FROM rungroup g
 WHERE g.status = :status AND g.completed_date IS NOT NULL AND g.completed_date <= :before
   AND (g.completed_date, g.id) > (:after_date, :after_id)
 ORDER BY g.completed_date, g.id LIMIT :limit;

-- :name first_runs_of_group
SELECT r.id, (SELECT count(*) FROM runstep s WHERE s.workflow_run_id = r.id AND s.parent_step_id IS NULL) AS steps
  FROM workflowrun r WHERE r.run_group_id = :group_id ORDER BY r.id LIMIT :limit;

-- :name runs_to_delete
SELECT id, run_group_id, status, parent_step_id, completed_date FROM workflowrun WHERE id {among ids};

-- :name some_tasks_of_runs
SELECT id FROM runstep WHERE workflow_run_id {among ids} AND parent_step_id IS NOT NULL LIMIT :limit;

-- :name steps_of_runs_to_delete
SELECT id FROM runstep WHERE workflow_run_id {among ids};

-- :name leases_of_steps
SELECT DISTINCT lease_token FROM runstep WHERE id {among ids} AND status = 'RUNNING' AND lease_token IS NOT NULL;

-- :name delete_steps
DELETE FROM runstep WHERE id {among ids};

-- In the order of the key: two who count at once must not wait for one another in a circle.
-- :name profile_steps
INSERT INTO stepprofile (workflow_id, step_name, step_type, day, status, bucket, steps, attempts, seconds)
SELECT x.workflow_id, x.step_name, x.step_type, x.day, x.status, {profile_bucket}, count(*), sum(x.attempts),
       coalesce(sum(x.seconds), 0)
  FROM (SELECT r.workflow_definition_id AS workflow_id, s.workflow_step_name AS step_name, s.step_type, s.status,
               {day_of_step} AS day, s.retry AS attempts, {seconds_of_step} AS seconds
          FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id
         WHERE s.id {among ids}) x
 WHERE true
 GROUP BY 1, 2, 3, 4, 5, 6
 ORDER BY 1, 2, 3, 4, 5, 6
ON CONFLICT (workflow_id, step_name, step_type, day, status, bucket) DO UPDATE
   SET steps = stepprofile.steps + excluded.steps, attempts = stepprofile.attempts + excluded.attempts,
       seconds = stepprofile.seconds + excluded.seconds;

-- :name step_profiles
SELECT workflow_id, step_name, step_type, status, bucket, sum(steps) AS steps, sum(attempts) AS attempts, sum(seconds) AS seconds
  FROM stepprofile
 WHERE workflow_id = :workflow_id AND day >= :since
 GROUP BY 1, 2, 3, 4, 5
 ORDER BY 1, 2, 3, 4, 5;

-- Signals that were compared with all waiting steps, and that no step waited for. Signals that were not compared yet
-- stay: a step may wait for them.
-- :name delete_old_signals
DELETE FROM signal WHERE created_at < :before AND NOT is_new RETURNING id;
