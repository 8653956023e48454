-- :name run_ids_of_steps
SELECT DISTINCT workflow_run_id FROM runstep WHERE id {among ids};

-- :name fail_steps
UPDATE runstep SET status = 'FAILED', completed_date = :now, status_date = :now, available_at = NULL
 WHERE id {among ids} AND status = 'ERROR'
RETURNING id, workflow_run_id, parent_step_id, worker_id, optional, workflow_step_name, is_last_step, status_message;

-- :name release_dependents
UPDATE runstep SET remaining_deps = remaining_deps - edge.n
  FROM (SELECT step_id, count(*) AS n FROM runstepdependency WHERE depends_on_id {among ids} GROUP BY step_id) edge
 WHERE runstep.id = edge.step_id AND remaining_deps > 0
RETURNING id, step_type, priority, remaining_deps;

-- As release_dependents, but steps that become ready are claimed at once. Steps of runs that are to stop are not
-- claimed, nor those of runs whose definition the worker has not read.
-- :name claim_dependents
UPDATE runstep
   SET remaining_deps = remaining_deps - edge.n,
       status = CASE WHEN {follows} THEN 'RUNNING' ELSE status END,
       worker_id = CASE WHEN {follows} THEN :worker_id ELSE worker_id END,
       lease_token = CASE WHEN {follows} THEN :lease ELSE lease_token END,
       start_date = CASE WHEN {follows} THEN {moment now} ELSE start_date END,
       status_date = CASE WHEN {follows} THEN {moment now} ELSE status_date END
  FROM (SELECT step_id, count(*) AS n FROM runstepdependency WHERE depends_on_id {among ids} GROUP BY step_id) edge
 WHERE runstep.id = edge.step_id AND remaining_deps > 0
RETURNING {claimed_columns}, remaining_deps, status;

-- :fragment follows
remaining_deps = edge.n AND status = 'PENDING' AND resource_key IS NULL
    AND step_type {among types} AND NOT workflow_run_id {among strange_runs}

-- :name cancel_waiting_steps
UPDATE runstep SET status = 'CANCELLED', completed_date = :now, status_date = :now, available_at = NULL, {wait_given_up}
 WHERE workflow_run_id {among ids} AND {waiting}
RETURNING id, workflow_run_id, parent_step_id, optional, workflow_step_name;

-- :name cancel_waiting_tasks
UPDATE runstep SET status = 'CANCELLED', completed_date = :now, status_date = :now, available_at = NULL, {wait_given_up}
 WHERE parent_step_id {among ids} AND {waiting}
RETURNING id, workflow_run_id, parent_step_id, optional, workflow_step_name;

-- :name mark_runs_stopping
UPDATE workflowrun SET cancel_requested_at = coalesce(cancel_requested_at, :now)
 WHERE id {among ids} AND status IN ('PENDING', 'RUNNING')
RETURNING id, run_group_id;

-- As advance_runs, for runs of which one step ended well: nearly all of them.
-- :name advance_runs_by_one
UPDATE workflowrun
   SET remaining_steps = remaining_steps - 1,
       status = CASE WHEN remaining_steps > 1 THEN status
                     WHEN failed_steps > 0 THEN 'FAILED'
                     WHEN cancel_requested_at >= deadline THEN 'FAILED'
                     WHEN cancel_requested_at IS NOT NULL THEN 'CANCELLED'
                     ELSE 'COMPLETED' END,
       status_date = CASE WHEN remaining_steps > 1 THEN status_date ELSE {moment now} END,
       completed_date = CASE WHEN remaining_steps > 1 THEN NULL ELSE {moment now} END
 WHERE id {among ids}
RETURNING id, run_group_id, status, doc_id, status_message, parent_step_id;

-- A lock goes with the last running step of its lease.
-- :name drop_locks_of_leases
DELETE FROM resourcelock
 WHERE holder_id {among leases}
   AND NOT EXISTS (SELECT 1 FROM runstep s
                    WHERE s.status = 'RUNNING' AND s.worker_id = holder_meta ->> 'worker_id'
                      AND s.lease_token = resourcelock.holder_id)
RETURNING resource_key;
