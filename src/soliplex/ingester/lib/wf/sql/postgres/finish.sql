-- Whoever changes steps of a run holds the run first, in the order of ids: steps, tasks and edges below it need no order then.
-- :name lock_runs
SELECT id, run_group_id, workflow_definition_id, cancel_requested_at FROM workflowrun
 WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE;

-- :name run_ids_of_steps
SELECT DISTINCT workflow_run_id FROM runstep WHERE id = ANY(:ids);

-- :name complete_steps
UPDATE runstep
   SET status = 'COMPLETED', completed_date = :now, status_date = :now, lease_token = NULL,
       start_date = coalesce(x.started_at AT TIME ZONE 'UTC', start_date), status_message = x.message,
       status_meta = coalesce(x.meta, status_meta), output = x.output
  FROM jsonb_to_recordset(CAST(:results AS jsonb))
       AS x (id bigint, lease text, started_at timestamp, message text, meta jsonb, output jsonb)
 WHERE runstep.id = x.id AND lease_token = x.lease
RETURNING runstep.id, workflow_run_id, parent_step_id, worker_id, resource_key, optional, workflow_step_name, is_last_step;

-- :name error_steps
UPDATE runstep
   SET status = 'ERROR', retry = retry + 1, status_date = :now, lease_token = NULL,
       start_date = coalesce(x.started_at AT TIME ZONE 'UTC', start_date),
       available_at = x.available_at AT TIME ZONE 'UTC', status_message = x.message,
       status_meta = coalesce(x.meta, status_meta)
  FROM jsonb_to_recordset(CAST(:results AS jsonb))
       AS x (id bigint, lease text, started_at timestamp, available_at timestamp, message text, meta jsonb)
 WHERE runstep.id = x.id AND lease_token = x.lease
RETURNING runstep.id, workflow_run_id, parent_step_id, worker_id, resource_key, optional, workflow_step_name, retry, retries;

-- :name fail_steps
UPDATE runstep SET status = 'FAILED', completed_date = :now, status_date = :now, available_at = NULL
 WHERE id = ANY(:ids) AND status = 'ERROR'
RETURNING id, workflow_run_id, parent_step_id, worker_id, optional, workflow_step_name, is_last_step, status_message;

-- :name release_steps
UPDATE runstep
   SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL, start_date = NULL,
       available_at = x.available_at AT TIME ZONE 'UTC', status_message = coalesce(x.message, status_message),
       status_meta = coalesce(x.meta, status_meta)
  FROM jsonb_to_recordset(CAST(:results AS jsonb)) AS x (id bigint, lease text, available_at timestamp, message text, meta jsonb)
 WHERE runstep.id = x.id AND lease_token = x.lease
RETURNING runstep.id, workflow_run_id, parent_step_id, worker_id, resource_key;

-- :name release_dependents
UPDATE runstep SET remaining_deps = remaining_deps - edge.n
  FROM (SELECT step_id, count(*) AS n FROM runstepdependency WHERE depends_on_id = ANY(:ids) GROUP BY step_id) edge
 WHERE runstep.id = edge.step_id AND remaining_deps > 0
RETURNING runstep.id, step_type, remaining_deps;

-- :name claim_dependents
UPDATE runstep
   SET remaining_deps = remaining_deps - edge.n,
       status = CASE WHEN {follows} THEN 'RUNNING' ELSE status END,
       worker_id = CASE WHEN {follows} THEN :worker_id ELSE worker_id END,
       lease_token = CASE WHEN {follows} THEN :lease ELSE lease_token END,
       start_date = CASE WHEN {follows} THEN CAST(:now AS timestamptz) ELSE start_date END,
       status_date = CASE WHEN {follows} THEN CAST(:now AS timestamptz) ELSE status_date END
  FROM (SELECT step_id, count(*) AS n FROM runstepdependency WHERE depends_on_id = ANY(:ids) GROUP BY step_id) edge
 WHERE runstep.id = edge.step_id AND remaining_deps > 0
RETURNING {claimed_columns}, remaining_deps, status;

-- :fragment follows
remaining_deps = edge.n AND status = 'PENDING' AND resource_key IS NULL AND step_type = ANY(:types)
    AND NOT workflow_run_id = ANY(:strange_runs)

-- :name cancel_waiting_steps
UPDATE runstep SET status = 'CANCELLED', completed_date = :now, status_date = :now, available_at = NULL
 WHERE workflow_run_id = ANY(:ids) AND {waiting}
RETURNING id, workflow_run_id, parent_step_id, optional, workflow_step_name;

-- :name cancel_waiting_tasks
UPDATE runstep SET status = 'CANCELLED', completed_date = :now, status_date = :now, available_at = NULL
 WHERE parent_step_id = ANY(:ids) AND {waiting}
RETURNING id, workflow_run_id, parent_step_id, optional, workflow_step_name;

-- :name mark_runs_stopping
UPDATE workflowrun SET cancel_requested_at = coalesce(cancel_requested_at, :now)
 WHERE id = ANY(:ids) AND status IN ('PENDING', 'RUNNING')
RETURNING id, run_group_id;

-- :name advance_runs
UPDATE workflowrun
   SET remaining_steps = remaining_steps - x.ended,
       failed_steps = failed_steps + x.failed,
       status_message = coalesce(x.message, status_message),
       status = CASE WHEN remaining_steps > x.ended THEN status
                     WHEN failed_steps + x.failed > 0 THEN 'FAILED'
                     WHEN cancel_requested_at IS NOT NULL THEN 'CANCELLED'
                     ELSE 'COMPLETED' END,
       status_date = CASE WHEN remaining_steps > x.ended THEN status_date ELSE CAST(:now AS timestamptz) END,
       completed_date = CASE WHEN remaining_steps > x.ended THEN NULL ELSE CAST(:now AS timestamptz) END
  FROM jsonb_to_recordset(CAST(:runs AS jsonb)) AS x (id bigint, ended int, failed int, message text)
 WHERE workflowrun.id = x.id
RETURNING workflowrun.id, run_group_id, status, doc_id, status_message;

-- :name advance_runs_by_one
UPDATE workflowrun
   SET remaining_steps = remaining_steps - 1,
       status = CASE WHEN remaining_steps > 1 THEN status
                     WHEN failed_steps > 0 THEN 'FAILED'
                     WHEN cancel_requested_at IS NOT NULL THEN 'CANCELLED'
                     ELSE 'COMPLETED' END,
       status_date = CASE WHEN remaining_steps > 1 THEN status_date ELSE CAST(:now AS timestamptz) END,
       completed_date = CASE WHEN remaining_steps > 1 THEN NULL ELSE CAST(:now AS timestamptz) END
 WHERE id = ANY(:ids)
RETURNING id, run_group_id, status, doc_id, status_message;

-- :name gather_run_outputs
UPDATE workflowrun
   SET output = (SELECT jsonb_object_agg(workflow_step_name, coalesce(s.output, 'null')) FROM runstep s
                  WHERE s.workflow_run_id = workflowrun.id AND s.is_last_step AND s.parent_step_id IS NULL)
 WHERE id = ANY(:ids);

-- Groups, too, are held in the order of ids.
-- :name advance_groups
WITH x AS MATERIALIZED (
    SELECT g.id AS group_id, ended, failed, cancelled
      FROM rungroup g JOIN jsonb_to_recordset(CAST(:groups AS jsonb)) AS y (id int, ended int, failed int, cancelled int)
        ON g.id = y.id ORDER BY g.id FOR NO KEY UPDATE OF g
)
UPDATE rungroup
   SET remaining_runs = remaining_runs - x.ended,
       failed_runs = failed_runs + x.failed,
       cancelled_runs = cancelled_runs + x.cancelled,
       status = CASE WHEN remaining_runs > x.ended THEN status
                     WHEN failed_runs + x.failed > 0 THEN 'FAILED'
                     WHEN cancelled_runs + x.cancelled > 0 THEN 'CANCELLED'
                     ELSE 'COMPLETED' END,
       status_date = CASE WHEN remaining_runs > x.ended THEN status_date ELSE CAST(:now AS timestamptz) END,
       completed_date = CASE WHEN remaining_runs > x.ended THEN NULL ELSE CAST(:now AS timestamptz) END
  FROM x WHERE rungroup.id = x.group_id
RETURNING rungroup.id, workflow_definition_id, batch_id, status, remaining_runs;

-- :name drop_locks_of_leases
DELETE FROM resourcelock
 WHERE holder_id = ANY(:leases)
   AND NOT EXISTS (SELECT 1 FROM runstep s
                    WHERE s.status = 'RUNNING' AND s.worker_id = holder_meta ->> 'worker_id'
                      AND s.lease_token = resourcelock.holder_id)
RETURNING resource_key;

-- :name insert_events
INSERT INTO lifecyclehistory (event, handler_name, run_group_id, workflow_run_id, step_id, start_date, completed_date,
                              status, status_date, status_message, status_meta, retry, retries, available_at)
SELECT event, handler, "group", run, step, CAST(:now AS timestamptz),
       CASE WHEN handler IS NULL THEN CAST(:now AS timestamptz) END,
       CASE WHEN handler IS NULL THEN 'COMPLETED' ELSE 'PENDING' END,
       CAST(:now AS timestamptz), message,
       CASE WHEN message IS NULL THEN '{}' ELSE jsonb_build_object('message', message) END, 0, retries,
       CAST(:now AS timestamptz)
  FROM jsonb_to_recordset(CAST(:events AS jsonb))
       AS x (event text, handler text, "group" int, run bigint, step bigint, message text, retries int);
