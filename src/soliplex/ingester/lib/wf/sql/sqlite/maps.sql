-- Map steps become tasks: rows of their own kind, one for each item, in order. They queue like the runs of a group, so
-- that a large map does not hold up others. `first` is the place of the first of these items in the whole list.
-- SQLite's json_each gives an item that is no object or array as a value of SQL, which must be made JSON again. CROSS
-- JOIN keeps SQLite from taking the JSON of a step apart for each of its items.
-- :name expand_maps
INSERT INTO runstep (workflow_run_id, workflow_step_number, workflow_step_name, step_config_id, step_type, is_last_step,
                     created_date, priority, queue_key, retry, retries, status, status_meta, resource_key, parent_step_id,
                     item_index, remaining_deps, remaining_tasks, timeout_seconds, isolation, optional, input)
SELECT p.workflow_run_id, p.workflow_step_number, p.workflow_step_name, p.step_config_id, p.step_type, 0,
       :now, p.priority, p.queue_key + first.value + item.key, 0, p.retries, 'PENDING', '{}', p.resource_key, p.id,
       first.value + item.key, 0, 0, p.timeout_seconds, p.isolation, p.optional,
       CASE WHEN item.type IN ('array', 'object') THEN item.value
            WHEN item.type IN ('true', 'false') THEN item.type
            ELSE json_quote(item.value) END
  FROM json_each(:maps) m
       CROSS JOIN json_each(m.value, '$.first') first
       CROSS JOIN runstep p
       CROSS JOIN json_each(m.value, '$.items') item
 WHERE p.id = json_extract(m.value, '$.id');

-- The steps go on without a lease: they wait for their tasks. SQLite takes JSON apart by paths.
-- :name await_tasks
UPDATE runstep SET lease_token = NULL, remaining_tasks = json_extract(x.value, '$.tasks')
  FROM json_each(:results) x
 WHERE runstep.id = json_extract(x.value, '$.id') AND lease_token = json_extract(x.value, '$.lease')
RETURNING id, workflow_run_id, step_type, priority, resource_key;

-- Parents that go on waiting; one whose last task has ended leaves RUNNING in the same statement that says so.
-- SQLite takes JSON apart by paths.
-- :name advance_parents
UPDATE runstep
   SET remaining_tasks = json_extract(x.value, '$.remaining'), failed_tasks = json_extract(x.value, '$.failed')
  FROM json_each(:parents) x
 WHERE runstep.id = json_extract(x.value, '$.id');

-- The output of a map step is the list of what its tasks gave, in the order of the items: of one that failed, why. SQLite
-- keeps JSON as text, which must be parsed again before it goes into a list.
-- :name complete_parents
UPDATE runstep
   SET status = 'COMPLETED', completed_date = :now, status_date = :now, remaining_tasks = 0,
       failed_tasks = json_extract(x.value, '$.failed'), status_message = json_extract(x.value, '$.message'),
       output = CASE WHEN gather THEN
                   (SELECT json_group_array(json(outcome))
                      FROM (SELECT CASE WHEN t.status = 'FAILED' THEN json_object('error', t.status_message)
                                        ELSE coalesce(t.output, 'null') END AS outcome
                              FROM runstep t WHERE t.parent_step_id = runstep.id ORDER BY t.item_index)) END
  FROM json_each(:parents) x
 WHERE runstep.id = json_extract(x.value, '$.id')
RETURNING id, workflow_run_id, parent_step_id, worker_id, optional, workflow_step_name, is_last_step;

-- SQLite takes JSON apart by paths.
-- :name error_parents
UPDATE runstep
   SET status = 'ERROR', status_date = :now, status_message = json_extract(x.value, '$.message'), remaining_tasks = 0
  FROM json_each(:parents) x
 WHERE runstep.id = json_extract(x.value, '$.id') AND status = 'RUNNING';
