-- :name run_exists
SELECT id FROM workflowrun WHERE id = :run_id;

-- :name flag_group
UPDATE rungroup SET cancel_requested_at = coalesce(cancel_requested_at, :now) WHERE id = :group_id RETURNING id;

-- :name flag_runs_of_group
UPDATE workflowrun SET cancel_requested_at = coalesce(cancel_requested_at, :now)
 WHERE run_group_id = :group_id AND status IN ('PENDING', 'RUNNING')
RETURNING id;

-- :name unfinished_runs_of_group
SELECT id FROM workflowrun
 WHERE run_group_id = :group_id
   AND (status IN ('FAILED', 'CANCELLED') OR (:hard AND status <> 'COMPLETED'));

-- :name release_running_steps
UPDATE runstep SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL, start_date = NULL,
                   remaining_tasks = 0
 WHERE workflow_run_id IN (SELECT value FROM json_each(:ids)) AND status = 'RUNNING';

-- :name drop_locks_of_runs
DELETE FROM resourcelock
 WHERE holder_id IN (SELECT lease_token FROM runstep
                      WHERE workflow_run_id IN (SELECT value FROM json_each(:ids)) AND status = 'RUNNING');

-- :name reset_ended_steps
UPDATE runstep
   SET status = 'PENDING', retry = 0, status_date = :now, status_message = NULL, start_date = NULL, completed_date = NULL,
       worker_id = NULL
 WHERE workflow_run_id IN (SELECT value FROM json_each(:ids)) AND status IN ('FAILED', 'CANCELLED')
RETURNING id, workflow_run_id;

-- :name reset_unfinished_steps
UPDATE runstep
   SET status = 'PENDING', retry = 0, status_date = :now, status_message = NULL, start_date = NULL, completed_date = NULL,
       worker_id = NULL, available_at = NULL
 WHERE workflow_run_id IN (SELECT value FROM json_each(:ids)) AND status <> 'COMPLETED'
RETURNING id, workflow_run_id;

-- A step that was COMPLETED, or failed and is optional, holds nobody up.
-- :name recount_dependencies
UPDATE runstep
   SET remaining_deps = (SELECT count(*) FROM runstepdependency e JOIN runstep d ON d.id = e.depends_on_id
                          WHERE e.step_id = runstep.id AND d.status <> 'COMPLETED'
                            AND NOT (d.status = 'FAILED' AND d.optional))
 WHERE workflow_run_id IN (SELECT value FROM json_each(:ids)) AND parent_step_id IS NULL AND status <> 'RUNNING';

-- A map step that has tasks goes on waiting for those that are not done.
-- :name recount_tasks
UPDATE runstep
   SET status = 'RUNNING', status_date = :now, start_date = :now,
       remaining_tasks = (SELECT count(*) FROM runstep t WHERE t.parent_step_id = runstep.id AND t.status <> 'COMPLETED')
 WHERE workflow_run_id IN (SELECT value FROM json_each(:ids)) AND parent_step_id IS NULL AND status = 'PENDING'
   AND EXISTS (SELECT 1 FROM runstep t WHERE t.parent_step_id = runstep.id AND t.status <> 'COMPLETED');

-- :name reopen_runs
UPDATE workflowrun
   SET status = 'PENDING', status_date = :now, status_message = NULL, completed_date = NULL, cancel_requested_at = NULL,
       failed_steps = 0,
       remaining_steps = (SELECT count(*) FROM runstep s
                           WHERE s.workflow_run_id = workflowrun.id AND s.parent_step_id IS NULL
                             AND s.status IN ('PENDING', 'ERROR', 'RUNNING'))
 WHERE id IN (SELECT value FROM json_each(:ids));

-- :name reopen_group
UPDATE rungroup
   SET status = 'PENDING', status_date = :now, completed_date = NULL, cancel_requested_at = NULL,
       remaining_runs = remaining_runs + :runs, failed_runs = failed_runs - :failed,
       cancelled_runs = cancelled_runs - :cancelled
 WHERE id = :group_id;

-- :name recount_run
UPDATE workflowrun
   SET remaining_steps = c.remaining, failed_steps = c.failed,
       status = CASE WHEN c.remaining > 0 AND c.begun > 0 THEN 'RUNNING' WHEN c.remaining > 0 THEN 'PENDING'
                     WHEN c.failed > 0 THEN 'FAILED' WHEN c.cancelled > 0 THEN 'CANCELLED' ELSE 'COMPLETED' END,
       completed_date = CASE WHEN c.remaining > 0 THEN NULL ELSE coalesce(completed_date, :now) END
  FROM (SELECT coalesce(sum(CASE WHEN status IN ('PENDING', 'ERROR', 'RUNNING') THEN 1 ELSE 0 END), 0) AS remaining,
               coalesce(sum(CASE WHEN status = 'FAILED' AND NOT optional THEN 1 ELSE 0 END), 0) AS failed,
               coalesce(sum(CASE WHEN status = 'CANCELLED' THEN 1 ELSE 0 END), 0) AS cancelled,
               coalesce(sum(CASE WHEN status IN ('RUNNING', 'ERROR', 'COMPLETED', 'FAILED') THEN 1 ELSE 0 END), 0) AS begun
          FROM runstep WHERE workflow_run_id = :run_id AND parent_step_id IS NULL) c
 WHERE id = :run_id
RETURNING status, run_group_id;

-- :name recount_group
UPDATE rungroup
   SET remaining_runs = c.remaining, failed_runs = c.failed, cancelled_runs = c.cancelled,
       status = CASE WHEN c.remaining > 0 OR c.total = 0 THEN status WHEN c.failed > 0 THEN 'FAILED'
                     WHEN c.cancelled > 0 THEN 'CANCELLED' ELSE 'COMPLETED' END,
       completed_date = CASE WHEN c.remaining > 0 OR c.total = 0 THEN completed_date ELSE coalesce(completed_date, :now) END
  FROM (SELECT count(*) AS total,
               coalesce(sum(CASE WHEN status IN ('PENDING', 'RUNNING', 'ERROR') THEN 1 ELSE 0 END), 0) AS remaining,
               coalesce(sum(CASE WHEN status = 'FAILED' THEN 1 ELSE 0 END), 0) AS failed,
               coalesce(sum(CASE WHEN status = 'CANCELLED' THEN 1 ELSE 0 END), 0) AS cancelled
          FROM workflowrun WHERE run_group_id = :group_id) c
 WHERE id = :group_id
RETURNING status, workflow_definition_id;

-- :name count_group
SELECT (SELECT count(*) FROM workflowrun WHERE run_group_id = :group_id) AS runs,
       (SELECT count(*) FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id
         WHERE r.run_group_id = :group_id) AS steps,
       (SELECT count(*) FROM lifecyclehistory WHERE run_group_id = :group_id) AS events;

-- :name delete_locks_of_group
DELETE FROM resourcelock
 WHERE holder_id IN (SELECT s.lease_token FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id
                      WHERE r.run_group_id = :group_id AND s.status = 'RUNNING');

-- :name delete_edges_of_group
DELETE FROM runstepdependency
 WHERE depends_on_id IN (SELECT s.id FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id
                          WHERE r.run_group_id = :group_id);

-- :name delete_tasks_of_group
DELETE FROM runstep
 WHERE parent_step_id IS NOT NULL AND workflow_run_id IN (SELECT id FROM workflowrun WHERE run_group_id = :group_id);

-- :name delete_steps_of_group
DELETE FROM runstep WHERE workflow_run_id IN (SELECT id FROM workflowrun WHERE run_group_id = :group_id);

-- :name delete_events_of_group
DELETE FROM lifecyclehistory WHERE run_group_id = :group_id;

-- :name delete_runs_of_group
DELETE FROM workflowrun WHERE run_group_id = :group_id;

-- :name delete_group
DELETE FROM rungroup WHERE id = :group_id;

-- :name anything_left
SELECT EXISTS (SELECT 1 FROM rungroup WHERE status IN ('PENDING', 'RUNNING') AND remaining_runs > 0)
    OR EXISTS (SELECT 1 FROM lifecyclehistory WHERE {waiting})
    OR EXISTS (SELECT 1 FROM lifecyclehistory WHERE status = 'RUNNING') AS some;
