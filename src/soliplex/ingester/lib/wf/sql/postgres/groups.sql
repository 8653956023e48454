-- Runs are held in the order of ids, as everywhere.
-- :name flag_runs_of_group
WITH held AS MATERIALIZED (
    SELECT id AS held_id FROM workflowrun WHERE run_group_id = :group_id AND status IN ('PENDING', 'RUNNING')
     ORDER BY id FOR NO KEY UPDATE
)
UPDATE workflowrun SET cancel_requested_at = coalesce(cancel_requested_at, :now)
  FROM held WHERE id = held_id AND status IN ('PENDING', 'RUNNING')
RETURNING id;

-- :name lock_runs_of_group
SELECT id FROM workflowrun WHERE run_group_id = :group_id ORDER BY id FOR NO KEY UPDATE;

-- The rest are as the portable ones, with an array for the ids.

-- :name leases_of_runs
SELECT DISTINCT lease_token FROM runstep
 WHERE workflow_run_id = ANY(:ids) AND status = 'RUNNING' AND lease_token IS NOT NULL;

-- :name reset_ended_steps
UPDATE runstep
   SET status = 'PENDING', retry = 0, status_date = :now, status_message = NULL, start_date = NULL, completed_date = NULL,
       worker_id = NULL
 WHERE workflow_run_id = ANY(:ids) AND status IN ('FAILED', 'CANCELLED')
RETURNING id, workflow_run_id;

-- :name reset_unfinished_steps
UPDATE runstep
   SET status = 'PENDING', retry = 0, status_date = :now, status_message = NULL, start_date = NULL, completed_date = NULL,
       worker_id = NULL, lease_token = NULL, available_at = NULL, remaining_tasks = 0
 WHERE workflow_run_id = ANY(:ids) AND status <> 'COMPLETED'
RETURNING id, workflow_run_id;

-- :name recount_dependencies
UPDATE runstep
   SET remaining_deps = (SELECT count(*) FROM runstepdependency e JOIN runstep d ON d.id = e.depends_on_id
                          WHERE e.step_id = runstep.id AND d.status <> 'COMPLETED'
                            AND NOT (d.status = 'FAILED' AND d.optional))
 WHERE workflow_run_id = ANY(:ids) AND parent_step_id IS NULL AND status <> 'RUNNING';

-- :name recount_tasks
UPDATE runstep
   SET status = 'RUNNING', status_date = :now, start_date = :now, remaining_deps = 0,
       remaining_tasks = (SELECT count(*) FROM runstep t WHERE t.parent_step_id = runstep.id AND t.status <> 'COMPLETED')
 WHERE workflow_run_id = ANY(:ids) AND parent_step_id IS NULL AND status = 'PENDING'
   AND EXISTS (SELECT 1 FROM runstep t WHERE t.parent_step_id = runstep.id AND t.status <> 'COMPLETED');

-- :name reopen_runs
UPDATE workflowrun
   SET status = 'PENDING', status_date = :now, status_message = NULL, completed_date = NULL, cancel_requested_at = NULL,
       failed_steps = 0,
       remaining_steps = (SELECT count(*) FROM runstep s
                           WHERE s.workflow_run_id = workflowrun.id AND s.parent_step_id IS NULL
                             AND s.status IN ('PENDING', 'ERROR', 'RUNNING'))
 WHERE id = ANY(:ids);
