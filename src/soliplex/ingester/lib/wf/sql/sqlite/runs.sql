-- SQLite has one writer at a time: to read is to hold.
-- :name lock_group
SELECT id, workflow_definition_id, batch_id, status, status_date, completed_date, cancel_requested_at,
       delete_requested_at FROM rungroup
 WHERE id = :group_id;

-- Nobody needs to be told: workers of other processes notice the change of the file.
-- :name notify
SELECT 1 WHERE :channel IS NULL AND :types IS NULL;

-- SQLite inserts runs, steps and edges by three statements: INSERT cannot stand in WITH there.
-- :name insert_runs
{with_queue_front}
INSERT INTO workflowrun (workflow_definition_id, run_group_id, batch_id, doc_id, priority, created_date, status,
                         status_date, status_meta, run_params, input, remaining_steps, failed_steps, queue_key,
                         run_key, deadline, parent_step_id, definition_id)
SELECT :workflow_id, :group_id, :batch_id, json_extract(x.value, '$.doc_id'), :priority, :now, 'PENDING', :now, '{}',
       coalesce(x.value -> '$.params', '{}'), x.value -> '$.input', :steps, 0, front.queue_key + x.key,
       json_extract(x.value, '$.key'), :deadline, json_extract(x.value, '$.parent_step_id'), :definition_id
  FROM front CROSS JOIN json_each(:runs) x
RETURNING id;

-- As insert_runs. The runs are those of the group that were inserted just now.
-- :name insert_steps
INSERT INTO runstep (workflow_run_id, workflow_step_number, workflow_step_name, step_config_id, step_type, is_last_step,
                     created_date, priority, queue_key, retry, retries, status, status_meta, resource_key,
                     remaining_deps, remaining_tasks, timeout_seconds, isolation, optional, available_at,
                     max_failures, gather)
SELECT r.id, json_extract(t.value, '$.number'), json_extract(t.value, '$.name'), json_extract(t.value, '$.config_id'),
       json_extract(t.value, '$.type'), json_extract(t.value, '$.is_last'), :now,
       r.priority + json_extract(t.value, '$.priority'), r.queue_key, 0,
       json_extract(t.value, '$.retries'), 'PENDING', '{}', json_extract(t.value, '$.resource_key'),
       json_extract(t.value, '$.deps'), 0, json_extract(t.value, '$.timeout'), json_extract(t.value, '$.isolation'),
       json_extract(t.value, '$.optional'), CASE WHEN json_extract(t.value, '$.deps') = 0 THEN :start_at END,
       json_extract(t.value, '$.max_failures'), json_extract(t.value, '$.gather')
  FROM workflowrun r CROSS JOIN json_each(:templates) t
 WHERE r.run_group_id = :group_id AND r.id >= :first_id
 ORDER BY r.id, t.key;

-- As insert_steps. CROSS JOIN keeps SQLite from choosing another order: it would look for each pair of steps among the
-- edges, and a run of many steps would take very long to insert.
-- :name insert_edges
INSERT INTO runstepdependency (depends_on_id, step_id)
SELECT a.id, b.id
  FROM workflowrun r
       CROSS JOIN json_each(:edges) e
       CROSS JOIN runstep a
       CROSS JOIN runstep b
 WHERE r.run_group_id = :group_id AND r.id >= :first_id
   AND a.workflow_run_id = r.id AND a.workflow_step_number = json_extract(e.value, '$[0]')
   AND b.workflow_run_id = r.id AND b.workflow_step_number = json_extract(e.value, '$[1]');
