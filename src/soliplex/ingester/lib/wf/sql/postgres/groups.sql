-- As the portable ones, with an array for the ids.

-- :name release_running_steps
UPDATE runstep SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL, start_date = NULL,
                   remaining_tasks = 0
 WHERE workflow_run_id = ANY(:ids) AND status = 'RUNNING';

-- :name drop_locks_of_runs
DELETE FROM resourcelock
 WHERE holder_id IN (SELECT lease_token FROM runstep
                      WHERE workflow_run_id = ANY(:ids) AND status = 'RUNNING');

-- :name reset_ended_steps
UPDATE runstep
   SET status = 'PENDING', retry = 0, status_date = :now, status_message = NULL, start_date = NULL, completed_date = NULL,
       worker_id = NULL
 WHERE workflow_run_id = ANY(:ids) AND status IN ('FAILED', 'CANCELLED')
RETURNING id, workflow_run_id;

-- :name reset_unfinished_steps
UPDATE runstep
   SET status = 'PENDING', retry = 0, status_date = :now, status_message = NULL, start_date = NULL, completed_date = NULL,
       worker_id = NULL, available_at = NULL
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
   SET status = 'RUNNING', status_date = :now, start_date = :now,
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
