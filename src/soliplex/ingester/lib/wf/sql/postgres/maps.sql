-- :name expand_maps
INSERT INTO runstep (workflow_run_id, workflow_step_number, workflow_step_name, step_config_id, step_type, is_last_step,
                     created_date, priority, queue_key, retry, retries, status, status_meta, resource_key, parent_step_id,
                     item_index, remaining_deps, remaining_tasks, timeout_seconds, isolation, optional, input)
SELECT p.workflow_run_id, p.workflow_step_number, p.workflow_step_name, p.step_config_id, p.step_type, false,
       :now, p.priority, p.queue_key + item.position - 1, 0, p.retries, 'PENDING', '{}', p.resource_key, p.id,
       item.position - 1, 0, 0, p.timeout_seconds, p.isolation, p.optional, item.value
  FROM jsonb_to_recordset(CAST(:maps AS jsonb)) AS m (id bigint, items jsonb)
       JOIN runstep p ON p.id = m.id
       CROSS JOIN jsonb_array_elements(m.items) WITH ORDINALITY AS item (value, position);

-- :name await_tasks
UPDATE runstep SET lease_token = NULL, remaining_tasks = x.tasks
  FROM jsonb_to_recordset(CAST(:results AS jsonb)) AS x (id bigint, lease text, tasks int)
 WHERE runstep.id = x.id AND lease_token = x.lease
RETURNING runstep.id, workflow_run_id, step_type, resource_key;

-- :name error_parents
UPDATE runstep SET status = 'ERROR', status_date = :now, status_message = x.message, remaining_tasks = 0
  FROM jsonb_to_recordset(CAST(:parents AS jsonb)) AS x (id bigint, message text)
 WHERE runstep.id = x.id AND status = 'RUNNING';

-- :name parents_by_id
SELECT id, remaining_tasks, workflow_run_id FROM runstep WHERE id = ANY(:ids) AND status = 'RUNNING';

-- :name advance_parents
UPDATE runstep SET remaining_tasks = x.remaining
  FROM jsonb_to_recordset(CAST(:parents AS jsonb)) AS x (id bigint, remaining int)
 WHERE runstep.id = x.id;

-- :name count_tasks
SELECT parent_step_id, count(*) FILTER (WHERE status = 'FAILED') AS failed,
       count(*) FILTER (WHERE status = 'CANCELLED') AS cancelled,
       max(status_message) FILTER (WHERE status = 'FAILED') AS message
  FROM runstep WHERE parent_step_id = ANY(:ids) GROUP BY parent_step_id;

-- :name complete_parents
UPDATE runstep
   SET status = 'COMPLETED', completed_date = :now, status_date = :now, remaining_tasks = 0,
       output = (SELECT jsonb_agg(coalesce(t.output, 'null') ORDER BY t.item_index) FROM runstep t
                  WHERE t.parent_step_id = runstep.id)
 WHERE id = ANY(:ids)
RETURNING id, workflow_run_id, parent_step_id, worker_id, optional, workflow_step_name, is_last_step;

-- :name release_parents
UPDATE runstep SET status = 'PENDING', status_date = :now, remaining_tasks = 0 WHERE id = ANY(:ids) AND status = 'RUNNING';

-- :name cancel_parents
UPDATE runstep SET status = 'CANCELLED', completed_date = :now, status_date = :now
 WHERE id = ANY(:ids) AND status = 'PENDING'
RETURNING id, workflow_run_id, parent_step_id, optional, workflow_step_name;

-- :name outputs_of_dependencies
SELECT e.step_id, d.workflow_step_name, CAST(d.output AS text) AS output FROM runstepdependency e JOIN runstep d ON d.id = e.depends_on_id
 WHERE e.step_id = ANY(:ids);
