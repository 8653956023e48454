-- Every statement here is gated on the lease: a row that does not come back was taken over by another worker, and what was
-- computed for it is dropped.

-- SQLite has one writer: reading is enough.
-- :name lock_runs
SELECT id, run_group_id, workflow_definition_id, cancel_requested_at FROM workflowrun
 WHERE id IN (SELECT value FROM json_each(:ids));

-- :name run_ids_of_steps
SELECT DISTINCT workflow_run_id FROM runstep WHERE id IN (SELECT value FROM json_each(:ids));

-- :name complete_steps
UPDATE runstep
   SET status = 'COMPLETED', completed_date = :now, status_date = :now, lease_token = NULL,
       start_date = coalesce(json_extract(x.value, '$.started_at'), start_date),
       status_message = json_extract(x.value, '$.message'),
       status_meta = coalesce(json_extract(x.value, '$.meta'), status_meta),
       output = x.value -> '$.output'
  FROM json_each(:results) x
 WHERE runstep.id = json_extract(x.value, '$.id') AND lease_token = json_extract(x.value, '$.lease')
RETURNING id, workflow_run_id, parent_step_id, worker_id, resource_key, optional, workflow_step_name, is_last_step;

-- The attempt is over and another follows, unless fail_steps comes next in the same transaction.
-- :name error_steps
UPDATE runstep
   SET status = 'ERROR', retry = retry + 1, status_date = :now, lease_token = NULL,
       start_date = coalesce(json_extract(x.value, '$.started_at'), start_date),
       available_at = json_extract(x.value, '$.available_at'),
       status_message = json_extract(x.value, '$.message'),
       status_meta = coalesce(json_extract(x.value, '$.meta'), status_meta)
  FROM json_each(:results) x
 WHERE runstep.id = json_extract(x.value, '$.id') AND lease_token = json_extract(x.value, '$.lease')
RETURNING id, workflow_run_id, parent_step_id, worker_id, resource_key, optional, workflow_step_name, retry, retries;

-- :name fail_steps
UPDATE runstep SET status = 'FAILED', completed_date = :now, status_date = :now, available_at = NULL
 WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'ERROR'
RETURNING id, workflow_run_id, parent_step_id, worker_id, optional, workflow_step_name, is_last_step, status_message;

-- :name release_steps
UPDATE runstep
   SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL, start_date = NULL,
       available_at = json_extract(x.value, '$.available_at'),
       status_message = coalesce(json_extract(x.value, '$.message'), status_message),
       status_meta = coalesce(json_extract(x.value, '$.meta'), status_meta)
  FROM json_each(:results) x
 WHERE runstep.id = json_extract(x.value, '$.id') AND lease_token = json_extract(x.value, '$.lease')
RETURNING id, workflow_run_id, parent_step_id, worker_id, resource_key;

-- :name release_dependents
UPDATE runstep SET remaining_deps = remaining_deps - edge.n
  FROM (SELECT step_id, count(*) AS n FROM runstepdependency
         WHERE depends_on_id IN (SELECT value FROM json_each(:ids)) GROUP BY step_id) edge
 WHERE runstep.id = edge.step_id AND remaining_deps > 0
RETURNING id, step_type, remaining_deps;

-- As release_dependents; what becomes ready is claimed at once, except in runs that are to stop, or of which the worker knows
-- too little.
-- :name claim_dependents
UPDATE runstep
   SET remaining_deps = remaining_deps - edge.n,
       status = CASE WHEN {follows} THEN 'RUNNING' ELSE status END,
       worker_id = CASE WHEN {follows} THEN :worker_id ELSE worker_id END,
       lease_token = CASE WHEN {follows} THEN :lease ELSE lease_token END,
       start_date = CASE WHEN {follows} THEN :now ELSE start_date END,
       status_date = CASE WHEN {follows} THEN :now ELSE status_date END
  FROM (SELECT step_id, count(*) AS n FROM runstepdependency
         WHERE depends_on_id IN (SELECT value FROM json_each(:ids)) GROUP BY step_id) edge
 WHERE runstep.id = edge.step_id AND remaining_deps > 0
RETURNING {claimed_columns}, remaining_deps, status;

-- :fragment follows
remaining_deps = edge.n AND status = 'PENDING' AND resource_key IS NULL
    AND step_type IN (SELECT value FROM json_each(:types)) AND workflow_run_id NOT IN (SELECT value FROM json_each(:strange_runs))

-- :name cancel_waiting_steps
UPDATE runstep SET status = 'CANCELLED', completed_date = :now, status_date = :now, available_at = NULL
 WHERE workflow_run_id IN (SELECT value FROM json_each(:ids)) AND {waiting}
RETURNING id, workflow_run_id, parent_step_id, optional, workflow_step_name;

-- :name cancel_waiting_tasks
UPDATE runstep SET status = 'CANCELLED', completed_date = :now, status_date = :now, available_at = NULL
 WHERE parent_step_id IN (SELECT value FROM json_each(:ids)) AND {waiting}
RETURNING id, workflow_run_id, parent_step_id, optional, workflow_step_name;

-- :name mark_runs_stopping
UPDATE workflowrun SET cancel_requested_at = coalesce(cancel_requested_at, :now)
 WHERE id IN (SELECT value FROM json_each(:ids)) AND status IN ('PENDING', 'RUNNING')
RETURNING id, run_group_id;

-- A run ends with its last step: FAILED if a step that was not optional failed, else CANCELLED if it was asked to stop.
-- :name advance_runs
UPDATE workflowrun
   SET remaining_steps = remaining_steps - json_extract(x.value, '$.ended'),
       failed_steps = failed_steps + json_extract(x.value, '$.failed'),
       status_message = coalesce(json_extract(x.value, '$.message'), status_message),
       status = CASE WHEN remaining_steps > json_extract(x.value, '$.ended') THEN status
                     WHEN failed_steps + json_extract(x.value, '$.failed') > 0 THEN 'FAILED'
                     WHEN cancel_requested_at IS NOT NULL THEN 'CANCELLED'
                     ELSE 'COMPLETED' END,
       status_date = CASE WHEN remaining_steps > json_extract(x.value, '$.ended') THEN status_date ELSE :now END,
       completed_date = CASE WHEN remaining_steps > json_extract(x.value, '$.ended') THEN NULL ELSE :now END
  FROM json_each(:runs) x
 WHERE workflowrun.id = json_extract(x.value, '$.id')
RETURNING id, run_group_id, status, doc_id, status_message;

-- As advance_runs, for runs of which one step ended well: nearly all of them.
-- :name advance_runs_by_one
UPDATE workflowrun
   SET remaining_steps = remaining_steps - 1,
       status = CASE WHEN remaining_steps > 1 THEN status
                     WHEN failed_steps > 0 THEN 'FAILED'
                     WHEN cancel_requested_at IS NOT NULL THEN 'CANCELLED'
                     ELSE 'COMPLETED' END,
       status_date = CASE WHEN remaining_steps > 1 THEN status_date ELSE :now END,
       completed_date = CASE WHEN remaining_steps > 1 THEN NULL ELSE :now END
 WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING id, run_group_id, status, doc_id, status_message;

-- The output of a run that is not about a document: what its last steps gave, by name.
-- :name gather_run_outputs
UPDATE workflowrun
   SET output = (SELECT json_group_object(workflow_step_name, json(coalesce(s.output, 'null'))) FROM runstep s
                  WHERE s.workflow_run_id = workflowrun.id AND s.is_last_step AND s.parent_step_id IS NULL)
 WHERE id IN (SELECT value FROM json_each(:ids));

-- :name advance_groups
UPDATE rungroup
   SET remaining_runs = remaining_runs - json_extract(x.value, '$.ended'),
       failed_runs = failed_runs + json_extract(x.value, '$.failed'),
       cancelled_runs = cancelled_runs + json_extract(x.value, '$.cancelled'),
       status = CASE WHEN remaining_runs > json_extract(x.value, '$.ended') THEN status
                     WHEN failed_runs + json_extract(x.value, '$.failed') > 0 THEN 'FAILED'
                     WHEN cancelled_runs + json_extract(x.value, '$.cancelled') > 0 THEN 'CANCELLED'
                     ELSE 'COMPLETED' END,
       status_date = CASE WHEN remaining_runs > json_extract(x.value, '$.ended') THEN status_date ELSE :now END,
       completed_date = CASE WHEN remaining_runs > json_extract(x.value, '$.ended') THEN NULL ELSE :now END
  FROM json_each(:groups) x
 WHERE rungroup.id = json_extract(x.value, '$.id')
RETURNING id, workflow_definition_id, batch_id, status, remaining_runs;

-- A lock goes with the last running step of its lease.
-- :name drop_locks_of_leases
DELETE FROM resourcelock
 WHERE holder_id IN (SELECT value FROM json_each(:leases))
   AND NOT EXISTS (SELECT 1 FROM runstep s
                    WHERE s.status = 'RUNNING' AND s.worker_id = holder_meta ->> 'worker_id'
                      AND s.lease_token = resourcelock.holder_id)
RETURNING resource_key;

-- What the event tells stands in status_meta as well: a delivery that fails puts its own trouble into status_message.
-- :name insert_events
INSERT INTO lifecyclehistory (event, handler_name, run_group_id, workflow_run_id, step_id, start_date, completed_date,
                              status, status_date, status_message, status_meta, retry, retries, available_at)
SELECT json_extract(x.value, '$.event'), json_extract(x.value, '$.handler'), json_extract(x.value, '$.group'),
       json_extract(x.value, '$.run'), json_extract(x.value, '$.step'), :now,
       CASE WHEN json_extract(x.value, '$.handler') IS NULL THEN :now END,
       CASE WHEN json_extract(x.value, '$.handler') IS NULL THEN 'COMPLETED' ELSE 'PENDING' END,
       :now, json_extract(x.value, '$.message'),
       CASE WHEN json_extract(x.value, '$.message') IS NULL THEN '{}'
            ELSE json_object('message', json_extract(x.value, '$.message')) END,
       0, json_extract(x.value, '$.retries'), :now
  FROM json_each(:events) x;
