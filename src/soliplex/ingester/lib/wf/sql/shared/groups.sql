-- :name run_exists
SELECT id FROM workflowrun WHERE id = :run_id;

-- :name flag_group
UPDATE rungroup SET cancel_requested_at = coalesce(cancel_requested_at, :now) WHERE id = :group_id RETURNING id;

-- :name unfinished_runs_of_group
SELECT id FROM workflowrun
 WHERE run_group_id = :group_id
   AND (status IN ('FAILED', 'CANCELLED') OR (:hard AND status <> 'COMPLETED'));

-- :name leases_of_runs
SELECT DISTINCT lease_token FROM runstep
 WHERE workflow_run_id {among ids} AND status = 'RUNNING' AND lease_token IS NOT NULL;

-- :name leases_of_absent_workers
SELECT DISTINCT lease_token FROM runstep s
 WHERE workflow_run_id {among ids} AND status = 'RUNNING' AND lease_token IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM workercheckin w WHERE w.id = s.worker_id);

-- Whether the step is a task of a map step that has completed although this task failed.
-- :fragment task_of_an_ended_map
(parent_step_id IS NOT NULL
 AND EXISTS (SELECT 1 FROM runstep p WHERE p.id = runstep.parent_step_id AND p.status = 'COMPLETED'))

-- A step that has failed after a run it waited for begins anew, with another run; one that was sent to a queue is sent
-- again; any other goes on where it was. Calls are counted anew, as attempts are: a loop that came to its bound may be
-- called as often again.
-- :name reset_ended_steps
UPDATE runstep
   SET status = 'PENDING', retry = 0, repeats = 0, status_date = :now, status_message = NULL, start_date = NULL, completed_date = NULL,
       worker_id = NULL, state = CASE WHEN answer ->> ':run' IS NULL THEN state END,
       answer = CASE WHEN answer ->> ':run' IS NULL AND answer ->> ':task' IS NULL THEN answer END
 WHERE workflow_run_id {among ids} AND status IN ('FAILED', 'CANCELLED') AND NOT {task_of_an_ended_map}
RETURNING id, workflow_run_id;

-- :name reset_unfinished_steps
UPDATE runstep
   SET status = 'PENDING', retry = 0, status_date = :now, status_message = NULL, start_date = NULL, completed_date = NULL,
       worker_id = NULL, lease_token = NULL, available_at = NULL, remaining_tasks = 0, state = NULL, awaits = NULL,
       answer = NULL, repeats = 0
 WHERE workflow_run_id {among ids} AND status <> 'COMPLETED' AND NOT {task_of_an_ended_map}
RETURNING id, workflow_run_id;

-- A step that was COMPLETED, or failed and is optional, holds nobody up.
-- :name recount_dependencies
UPDATE runstep
   SET remaining_deps = (SELECT count(*) FROM runstepdependency e JOIN runstep d ON d.id = e.depends_on_id
                          WHERE e.step_id = runstep.id AND d.status <> 'COMPLETED'
                            AND NOT (d.status = 'FAILED' AND d.optional))
 WHERE workflow_run_id {among ids} AND parent_step_id IS NULL AND status <> 'RUNNING';

-- A map step that has tasks goes on waiting for those that are not done, and for nothing else: an optional step before
-- it that is tried again comes too late for it.
-- :name recount_tasks
UPDATE runstep
   SET status = 'RUNNING', status_date = :now, start_date = :now, remaining_deps = 0, failed_tasks = 0,
       remaining_tasks = (SELECT count(*) FROM runstep t WHERE t.parent_step_id = runstep.id AND t.status <> 'COMPLETED')
 WHERE workflow_run_id {among ids} AND parent_step_id IS NULL AND status = 'PENDING'
   AND EXISTS (SELECT 1 FROM runstep t WHERE t.parent_step_id = runstep.id AND t.status <> 'COMPLETED');

-- :name reopen_runs
UPDATE workflowrun
   SET status = 'PENDING', status_date = :now, status_message = NULL, completed_date = NULL, cancel_requested_at = NULL,
       failed_steps = 0, deadline = CASE WHEN deadline > {moment now} THEN deadline END,
       remaining_steps = (SELECT count(*) FROM runstep s
                           WHERE s.workflow_run_id = workflowrun.id AND s.parent_step_id IS NULL
                             AND s.status IN ('PENDING', 'ERROR', 'RUNNING'))
 WHERE id {among ids};

-- A group that has not ended goes on as it is.
-- :name reopen_group
UPDATE rungroup
   SET status = CASE WHEN completed_date IS NULL THEN status ELSE 'PENDING' END,
       status_date = CASE WHEN completed_date IS NULL THEN status_date ELSE :now END,
       completed_date = NULL, cancel_requested_at = NULL,
       remaining_runs = remaining_runs + :runs, failed_runs = failed_runs - :failed,
       cancelled_runs = cancelled_runs - :cancelled
 WHERE id = :group_id;

-- :name count_steps_of_run
SELECT coalesce(sum(CASE WHEN parent_step_id IS NULL AND status IN ('PENDING', 'ERROR', 'RUNNING') THEN 1 ELSE 0 END), 0)
           AS remaining,
       coalesce(sum(CASE WHEN parent_step_id IS NULL AND status = 'FAILED' AND NOT optional THEN 1 ELSE 0 END), 0) AS failed,
       coalesce(sum(CASE WHEN parent_step_id IS NULL AND status = 'CANCELLED' THEN 1 ELSE 0 END), 0) AS cancelled,
       coalesce(sum(CASE WHEN lease_token IS NOT NULL THEN 1 ELSE 0 END), 0) AS executed,
       coalesce(sum(CASE WHEN status <> 'PENDING' THEN 1 ELSE 0 END), 0) AS begun
  FROM runstep WHERE workflow_run_id = :run_id;

-- :name set_run_status
UPDATE workflowrun
   SET remaining_steps = :remaining, failed_steps = :failed, status = CAST(:status AS text), status_date = :status_date,
       completed_date = :completed_date,
       cancel_requested_at = CASE WHEN CAST(:status AS text) = 'CANCELLED' THEN coalesce(cancel_requested_at, :status_date)
                                  ELSE cancel_requested_at END
 WHERE id = :run_id
RETURNING id, run_group_id, status, doc_id, status_message, parent_step_id;

-- :name count_runs_of_group
SELECT count(*) AS total,
       coalesce(sum(CASE WHEN status IN ('PENDING', 'RUNNING', 'ERROR') THEN 1 ELSE 0 END), 0) AS remaining,
       coalesce(sum(CASE WHEN status = 'FAILED' THEN 1 ELSE 0 END), 0) AS failed,
       coalesce(sum(CASE WHEN status = 'CANCELLED' THEN 1 ELSE 0 END), 0) AS cancelled
  FROM workflowrun WHERE run_group_id = :group_id;

-- :name set_group_status
UPDATE rungroup
   SET total_runs = :total, remaining_runs = :remaining, failed_runs = :failed, cancelled_runs = :cancelled,
       status = :status, status_date = :status_date, completed_date = :completed_date
 WHERE id = :group_id;

-- :name delete_events_of_group
DELETE FROM lifecyclehistory WHERE run_group_id = :group_id RETURNING id;

-- :name delete_group
DELETE FROM rungroup WHERE id = :group_id RETURNING id;

-- :name anything_left
SELECT EXISTS (SELECT 1 FROM rungroup WHERE status IN ('PENDING', 'RUNNING') AND remaining_runs > 0)
    OR EXISTS (SELECT 1 FROM lifecyclehistory WHERE {waiting})
    OR EXISTS (SELECT 1 FROM lifecyclehistory WHERE status = 'RUNNING') AS some;
