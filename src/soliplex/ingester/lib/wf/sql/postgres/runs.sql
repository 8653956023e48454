-- :name lock_group
SELECT id, workflow_definition_id, batch_id, status, status_date, completed_date, cancel_requested_at FROM rungroup
 WHERE id = :group_id FOR NO KEY UPDATE;

-- Tells idle workers of other processes, too, as `notify` does, and which types of steps they find.
-- :name insert_runs
{with_queue_front}
INSERT INTO workflowrun (workflow_definition_id, run_group_id, batch_id, doc_id, priority, created_date, status,
                         status_date, status_meta, run_params, input, remaining_steps, failed_steps, queue_key)
SELECT :workflow_id, :group_id, :batch_id, x.value ->> 'doc_id', :priority, :now, 'PENDING', CAST(:now AS timestamptz), '{}',
       coalesce(x.value -> 'params', '{}'), x.value -> 'input', :steps, 0, front.queue_key + x.position - 1
  FROM pg_notify(:channel, :ready_types) CROSS JOIN front
       CROSS JOIN jsonb_array_elements(CAST(:runs AS jsonb)) WITH ORDINALITY AS x (value, position)
RETURNING id;

-- :name insert_steps
INSERT INTO runstep (workflow_run_id, workflow_step_number, workflow_step_name, step_config_id, step_type, is_last_step,
                     created_date, priority, queue_key, retry, retries, status, status_meta, resource_key,
                     remaining_deps, remaining_tasks, timeout_seconds, isolation, optional)
SELECT r.id, t.number, t.name, t.config_id, t.type, t.is_last, :now, r.priority, r.queue_key, 0, t.retries, 'PENDING', '{}',
       t.resource_key, t.deps, 0, t.timeout, t.isolation, t.optional
  FROM workflowrun r
       CROSS JOIN jsonb_to_recordset(CAST(:templates AS jsonb))
            AS t (number int, name text, config_id int, type text, is_last bool, retries int, resource_key text, deps int,
                  timeout float, isolation text, optional bool)
 WHERE r.run_group_id = :group_id AND r.id >= :first_id
 ORDER BY r.id, t.number;

-- :name insert_edges
INSERT INTO runstepdependency (depends_on_id, step_id)
SELECT a.id, b.id
  FROM workflowrun r
       CROSS JOIN jsonb_array_elements(CAST(:edges AS jsonb)) e
       JOIN runstep a ON a.workflow_run_id = r.id AND a.workflow_step_number = CAST(e ->> 0 AS int)
       JOIN runstep b ON b.workflow_run_id = r.id AND b.workflow_step_number = CAST(e ->> 1 AS int)
 WHERE r.run_group_id = :group_id AND r.id >= :first_id;

-- :name notify
SELECT pg_notify(:channel, '');

-- :name step_configs_by_id
SELECT id, created_date, step_type, CAST(config_json AS text) AS config_json, cuml_config_json, cuml_hash FROM stepconfig WHERE id = ANY(:ids);
