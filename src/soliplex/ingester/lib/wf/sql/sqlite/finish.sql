-- Statements that end steps ask for the lease: a row that does not come back was taken over by another worker, and what
-- was computed for it is dropped.

-- SQLite has one writer at a time: to read is to hold.
-- :name lock_runs
SELECT id, run_group_id, workflow_definition_id, cancel_requested_at, definition_id FROM workflowrun
 WHERE id IN (SELECT value FROM json_each(:ids));

-- SQLite takes JSON apart by paths. A member that is absent is NULL, and the column stays as it is.
-- :name complete_steps
UPDATE runstep
   SET status = 'COMPLETED', completed_date = :now, status_date = :now, lease_token = NULL, progress = NULL,
       start_date = coalesce(json_extract(x.value, '$.started_at'), start_date),
       status_message = json_extract(x.value, '$.message'),
       status_meta = coalesce(json_extract(x.value, '$.meta'), status_meta),
       output = x.value -> '$.output'
  FROM json_each(:results) x
 WHERE runstep.id = json_extract(x.value, '$.id') AND lease_token = json_extract(x.value, '$.lease')
RETURNING id, workflow_run_id, parent_step_id, worker_id, resource_key, optional, workflow_step_name, is_last_step;

-- The attempt is over and another follows, unless fail_steps comes next in the same transaction. SQLite takes JSON
-- apart by paths.
-- :name error_steps
UPDATE runstep
   SET status = 'ERROR', retry = retry + coalesce(json_extract(x.value, '$.attempts'), 1), status_date = :now, lease_token = NULL,
       start_date = coalesce(json_extract(x.value, '$.started_at'), start_date),
       available_at = json_extract(x.value, '$.available_at'),
       status_message = json_extract(x.value, '$.message'),
       status_meta = coalesce(json_extract(x.value, '$.meta'), status_meta)
  FROM json_each(:results) x
 WHERE runstep.id = json_extract(x.value, '$.id') AND lease_token = json_extract(x.value, '$.lease')
RETURNING id, workflow_run_id, parent_step_id, worker_id, resource_key, optional, workflow_step_name, retry, retries;

-- SQLite takes JSON apart by paths.
-- :name release_steps
UPDATE runstep
   SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL, start_date = NULL,
       available_at = json_extract(x.value, '$.available_at'),
       status_message = coalesce(json_extract(x.value, '$.message'), status_message),
       status_meta = coalesce(json_extract(x.value, '$.meta'), status_meta)
  FROM json_each(:results) x
 WHERE runstep.id = json_extract(x.value, '$.id') AND lease_token = json_extract(x.value, '$.lease')
RETURNING id, workflow_run_id, parent_step_id, worker_id, resource_key;

-- A run ends with its last step: FAILED if a step that was not optional failed, else CANCELLED if it was asked to stop.
-- SQLite takes JSON apart by paths.
-- :name advance_runs
UPDATE workflowrun
   SET remaining_steps = remaining_steps - json_extract(x.value, '$.ended'),
       failed_steps = failed_steps + json_extract(x.value, '$.failed'),
       status_message = coalesce(json_extract(x.value, '$.message'), status_message),
       status = CASE WHEN remaining_steps > json_extract(x.value, '$.ended') THEN status
                     WHEN failed_steps + json_extract(x.value, '$.failed') > 0 THEN 'FAILED'
                     WHEN cancel_requested_at >= deadline THEN 'FAILED'
                     WHEN cancel_requested_at IS NOT NULL THEN 'CANCELLED'
                     ELSE 'COMPLETED' END,
       status_date = CASE WHEN remaining_steps > json_extract(x.value, '$.ended') THEN status_date ELSE :now END,
       completed_date = CASE WHEN remaining_steps > json_extract(x.value, '$.ended') THEN NULL ELSE :now END
  FROM json_each(:runs) x
 WHERE workflowrun.id = json_extract(x.value, '$.id')
RETURNING id, run_group_id, status, doc_id, status_message, parent_step_id;

-- The output of a run that has an input of its own: what its last steps gave, by name. SQLite keeps JSON as text, which
-- must be parsed again before it goes into an object.
-- :name gather_run_outputs
UPDATE workflowrun
   SET output = (SELECT json_group_object(workflow_step_name, json(coalesce(s.output, 'null'))) FROM runstep s
                  WHERE s.workflow_run_id = workflowrun.id AND s.is_last_step AND s.parent_step_id IS NULL)
 WHERE id IN (SELECT value FROM json_each(:ids));

-- SQLite takes JSON apart by paths. It has one writer at a time: groups need not be held in the order of ids.
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
RETURNING id, workflow_definition_id, batch_id, status, remaining_runs, created_date;

-- What the event tells stands in status_meta as well: a delivery that fails puts its own trouble into status_message.
-- SQLite takes JSON apart by paths.
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
