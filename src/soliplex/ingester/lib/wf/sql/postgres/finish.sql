-- Statements that end steps ask for the lease: a row that does not come back was taken over by another worker, and what
-- was computed for it is dropped.

-- Whoever changes steps of a run holds the run first, in the order of ids: steps, tasks and edges below it need no
-- order then.
-- :name lock_runs
SELECT id, run_group_id, workflow_definition_id, cancel_requested_at, definition_id FROM workflowrun
 WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE;

-- PostgreSQL reads JSON as typed records. A member that is absent is NULL, and the column stays as it is.
-- :name complete_steps
UPDATE runstep
   SET status = 'COMPLETED', completed_date = :now, status_date = :now, lease_token = NULL, progress = NULL,
       start_date = coalesce(x.started_at AT TIME ZONE 'UTC', start_date), status_message = x.message,
       status_meta = coalesce(x.meta, status_meta), output = x.output
  FROM jsonb_to_recordset(CAST(:results AS jsonb))
       AS x (id bigint, lease text, started_at timestamp, message text, meta jsonb, output jsonb)
 WHERE runstep.id = x.id AND lease_token = x.lease
RETURNING runstep.id, workflow_run_id, parent_step_id, worker_id, resource_key, optional, workflow_step_name, is_last_step;

-- PostgreSQL reads JSON as typed records. Only on PostgreSQL are steps sent to queues: the answer of a queue's worker
-- belongs to the attempt that ends here, so it is removed with it.
-- :name error_steps
UPDATE runstep
   SET status = 'ERROR', retry = retry + coalesce(x.attempts, 1), status_date = :now, lease_token = NULL,
       start_date = coalesce(x.started_at AT TIME ZONE 'UTC', start_date),
       available_at = x.available_at AT TIME ZONE 'UTC', status_message = x.message,
       status_meta = coalesce(x.meta, status_meta), answer = CASE WHEN answer ->> ':task' IS NULL THEN answer END
  FROM jsonb_to_recordset(CAST(:results AS jsonb))
       AS x (id bigint, lease text, started_at timestamp, available_at timestamp, message text, meta jsonb, attempts int)
 WHERE runstep.id = x.id AND lease_token = x.lease
RETURNING runstep.id, workflow_run_id, parent_step_id, worker_id, resource_key, optional, workflow_step_name, retry, retries;

-- PostgreSQL reads JSON as typed records.
-- :name release_steps
UPDATE runstep
   SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL, start_date = NULL,
       available_at = x.available_at AT TIME ZONE 'UTC', status_message = coalesce(x.message, status_message),
       status_meta = coalesce(x.meta, status_meta)
  FROM jsonb_to_recordset(CAST(:results AS jsonb)) AS x (id bigint, lease text, available_at timestamp, message text, meta jsonb)
 WHERE runstep.id = x.id AND lease_token = x.lease
RETURNING runstep.id, workflow_run_id, parent_step_id, worker_id, resource_key;

-- PostgreSQL reads JSON as typed records.
-- :name advance_runs
UPDATE workflowrun
   SET remaining_steps = remaining_steps - x.ended,
       failed_steps = failed_steps + x.failed,
       status_message = coalesce(x.message, status_message),
       status = CASE WHEN remaining_steps > x.ended THEN status
                     WHEN failed_steps + x.failed > 0 THEN 'FAILED'
                     WHEN cancel_requested_at >= deadline THEN 'FAILED'
                     WHEN cancel_requested_at IS NOT NULL THEN 'CANCELLED'
                     ELSE 'COMPLETED' END,
       status_date = CASE WHEN remaining_steps > x.ended THEN status_date ELSE CAST(:now AS timestamptz) END,
       completed_date = CASE WHEN remaining_steps > x.ended THEN NULL ELSE CAST(:now AS timestamptz) END
  FROM jsonb_to_recordset(CAST(:runs AS jsonb)) AS x (id bigint, ended int, failed int, message text)
 WHERE workflowrun.id = x.id
RETURNING workflowrun.id, run_group_id, status, doc_id, status_message, parent_step_id;

-- PostgreSQL makes an object of jsonb values as they are.
-- :name gather_run_outputs
UPDATE workflowrun
   SET output = (SELECT jsonb_object_agg(workflow_step_name, coalesce(s.output, 'null')) FROM runstep s
                  WHERE s.workflow_run_id = workflowrun.id AND s.is_last_step AND s.parent_step_id IS NULL)
 WHERE id = ANY(:ids);

-- Groups, too, are held in the order of ids. PostgreSQL reads JSON as typed records.
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
RETURNING rungroup.id, workflow_definition_id, batch_id, status, remaining_runs, created_date;

-- PostgreSQL reads JSON as typed records.
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
