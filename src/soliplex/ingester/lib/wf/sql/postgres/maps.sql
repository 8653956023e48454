-- `first` is the place of the first of these items in the whole list. PostgreSQL counts the elements of an array from one.
-- :name expand_maps
INSERT INTO runstep (workflow_run_id, workflow_step_number, workflow_step_name, step_config_id, step_type, is_last_step,
                     created_date, priority, queue_key, retry, retries, status, status_meta, resource_key, parent_step_id,
                     item_index, remaining_deps, remaining_tasks, timeout_seconds, isolation, optional, input)
SELECT p.workflow_run_id, p.workflow_step_number, p.workflow_step_name, p.step_config_id, p.step_type, false,
       :now, p.priority, p.queue_key + m.first + item.position - 1, 0, p.retries, 'PENDING', '{}', p.resource_key, p.id,
       m.first + item.position - 1, 0, 0, p.timeout_seconds, p.isolation, p.optional, item.value
  FROM jsonb_to_recordset(CAST(:maps AS jsonb)) AS m (id bigint, first int, items jsonb)
       JOIN runstep p ON p.id = m.id
       CROSS JOIN jsonb_array_elements(m.items) WITH ORDINALITY AS item (value, position);

-- PostgreSQL reads JSON as typed records.
-- :name await_tasks
UPDATE runstep SET lease_token = NULL, remaining_tasks = x.tasks
  FROM jsonb_to_recordset(CAST(:results AS jsonb)) AS x (id bigint, lease text, tasks int)
 WHERE runstep.id = x.id AND lease_token = x.lease
RETURNING runstep.id, workflow_run_id, step_type, priority, resource_key;

-- PostgreSQL reads JSON as typed records.
-- :name error_parents
UPDATE runstep SET status = 'ERROR', status_date = :now, status_message = x.message, remaining_tasks = 0
  FROM jsonb_to_recordset(CAST(:parents AS jsonb)) AS x (id bigint, message text)
 WHERE runstep.id = x.id AND status = 'RUNNING';

-- PostgreSQL reads JSON as typed records.
-- :name advance_parents
UPDATE runstep SET remaining_tasks = x.remaining, failed_tasks = x.failed
  FROM jsonb_to_recordset(CAST(:parents AS jsonb)) AS x (id bigint, remaining int, failed int)
 WHERE runstep.id = x.id;

-- PostgreSQL makes a list of jsonb values as they are.
-- :name complete_parents
UPDATE runstep
   SET status = 'COMPLETED', completed_date = :now, status_date = :now, remaining_tasks = 0,
       failed_tasks = x.failed, status_message = x.message,
       output = CASE WHEN gather THEN
                   (SELECT jsonb_agg(CASE WHEN t.status = 'FAILED' THEN jsonb_build_object('error', t.status_message)
                                          ELSE coalesce(t.output, 'null') END ORDER BY t.item_index)
                      FROM runstep t WHERE t.parent_step_id = runstep.id) END
  FROM jsonb_to_recordset(CAST(:parents AS jsonb)) AS x (id bigint, failed int, message text)
 WHERE runstep.id = x.id
RETURNING runstep.id, workflow_run_id, parent_step_id, worker_id, optional, workflow_step_name, is_last_step;
