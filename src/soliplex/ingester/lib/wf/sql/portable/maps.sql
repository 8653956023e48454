-- Map steps become tasks: rows of their own kind, one for each item, in order. They queue like the runs of a group, so
-- that a large map does not hold up others.
-- :name expand_maps
INSERT INTO runstep (workflow_run_id, workflow_step_number, workflow_step_name, step_config_id, step_type, is_last_step,
                     created_date, priority, queue_key, retry, retries, status, status_meta, resource_key, parent_step_id,
                     item_index, remaining_deps, remaining_tasks, timeout_seconds, isolation, optional, input)
SELECT p.workflow_run_id, p.workflow_step_number, p.workflow_step_name, p.step_config_id, p.step_type, 0,
       :now, p.priority, p.queue_key + item.key, 0, p.retries, 'PENDING', '{}', p.resource_key, p.id,
       item.key, 0, 0, p.timeout_seconds, p.isolation, p.optional,
       CASE WHEN item.type IN ('array', 'object') THEN item.value
            WHEN item.type IN ('true', 'false') THEN item.type
            ELSE json_quote(item.value) END
  FROM json_each(:maps) m
       JOIN runstep p ON p.id = json_extract(m.value, '$.id')
       JOIN json_each(m.value, '$.items') item;

-- The steps go on without a lease: they wait for their tasks.
-- :name await_tasks
UPDATE runstep SET lease_token = NULL, remaining_tasks = json_extract(x.value, '$.tasks')
  FROM json_each(:results) x
 WHERE runstep.id = json_extract(x.value, '$.id') AND lease_token = json_extract(x.value, '$.lease')
RETURNING id, workflow_run_id, step_type, resource_key;

-- :name output_of_step
SELECT CAST(output AS text) AS output FROM runstep
 WHERE workflow_run_id = :run_id AND workflow_step_name = :name AND parent_step_id IS NULL;

-- :name parents_by_id
SELECT id, remaining_tasks, workflow_run_id FROM runstep
 WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'RUNNING';

-- Parents that go on waiting; one whose last task has ended leaves RUNNING in the same statement that says so.
-- :name advance_parents
UPDATE runstep SET remaining_tasks = json_extract(x.value, '$.remaining')
  FROM json_each(:parents) x
 WHERE runstep.id = json_extract(x.value, '$.id');

-- :name count_tasks
SELECT parent_step_id, sum(status = 'FAILED') AS failed, sum(status = 'CANCELLED') AS cancelled,
       max(CASE WHEN status = 'FAILED' THEN status_message END) AS message
  FROM runstep WHERE parent_step_id IN (SELECT value FROM json_each(:ids)) GROUP BY parent_step_id;

-- :name complete_parents
UPDATE runstep
   SET status = 'COMPLETED', completed_date = :now, status_date = :now, remaining_tasks = 0,
       output = (SELECT json_group_array(json(coalesce(output, 'null')))
                   FROM (SELECT t.output FROM runstep t WHERE t.parent_step_id = runstep.id ORDER BY t.item_index))
 WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING id, workflow_run_id, parent_step_id, worker_id, optional, workflow_step_name, is_last_step;

-- :name error_parents
UPDATE runstep
   SET status = 'ERROR', status_date = :now, status_message = json_extract(x.value, '$.message'), remaining_tasks = 0
  FROM json_each(:parents) x
 WHERE runstep.id = json_extract(x.value, '$.id') AND status = 'RUNNING';

-- :name release_parents
UPDATE runstep SET status = 'PENDING', status_date = :now, remaining_tasks = 0
 WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'RUNNING';

-- :name cancel_parents
UPDATE runstep SET status = 'CANCELLED', completed_date = :now, status_date = :now
 WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'PENDING'
RETURNING id, workflow_run_id, parent_step_id, optional, workflow_step_name;

-- :name outputs_of_dependencies
SELECT e.step_id, d.workflow_step_name, CAST(d.output AS text) AS output FROM runstepdependency e JOIN runstep d ON d.id = e.depends_on_id
 WHERE e.step_id IN (SELECT value FROM json_each(:ids));
