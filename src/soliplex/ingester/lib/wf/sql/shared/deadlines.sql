-- Runs whose deadline has passed. One that was asked to stop at its deadline or later ends FAILED, as `advance_runs` has it.

-- :name overdue_runs
SELECT id FROM workflowrun
 WHERE deadline IS NOT NULL AND completed_date IS NULL AND deadline <= :now ORDER BY deadline LIMIT :limit;

-- :name mark_overdue
UPDATE workflowrun
   SET cancel_requested_at = coalesce(cancel_requested_at, :now), status_message = coalesce(status_message, :message)
 WHERE id {among ids} AND completed_date IS NULL AND deadline <= :now
RETURNING id;

-- What runs goes back without waiting for its worker, which may be stopped: a result that it still sends is dropped.
-- :name take_back_running_steps
UPDATE runstep SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL, start_date = NULL
 WHERE workflow_run_id {among ids} AND status = 'RUNNING' AND lease_token IS NOT NULL
RETURNING id;
