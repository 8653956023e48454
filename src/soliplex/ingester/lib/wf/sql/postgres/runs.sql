-- :name lock_group
SELECT id, workflow_definition_id, batch_id, status, status_date, completed_date, cancel_requested_at FROM rungroup
 WHERE id = :group_id FOR NO KEY UPDATE;

-- Runs of `target`, with their steps, all at once: a statement costs as much as its answer takes to arrive. Tells idle
-- workers of other processes, too, as `notify` does, and which types of steps they find.
-- :fragment new_runs
new_run AS (
    INSERT INTO workflowrun (workflow_definition_id, run_group_id, batch_id, doc_id, priority, created_date, status,
                             status_date, status_meta, run_params, input, remaining_steps, failed_steps, queue_key)
    SELECT :workflow_id, target.id, :batch_id, x.value ->> 'doc_id', :priority, :now, 'PENDING', CAST(:now AS timestamptz), '{}',
           coalesce(x.value -> 'params', '{}'), x.value -> 'input', :steps, 0, front.queue_key + x.position - 1
      FROM pg_notify(:channel, :ready_types) CROSS JOIN front CROSS JOIN target
           CROSS JOIN jsonb_array_elements(CAST(:runs AS jsonb)) WITH ORDINALITY AS x (value, position)
    RETURNING id, run_group_id, priority, queue_key
), new_step AS (
    INSERT INTO runstep (workflow_run_id, workflow_step_number, workflow_step_name, step_config_id, step_type, is_last_step,
                         created_date, priority, queue_key, retry, retries, status, status_meta, resource_key,
                         remaining_deps, remaining_tasks, timeout_seconds, isolation, optional)
    SELECT r.id, t.number, t.name, t.config_id, t.type, t.is_last, :now, r.priority, r.queue_key, 0, t.retries, 'PENDING', '{}',
           t.resource_key, t.deps, 0, t.timeout, t.isolation, t.optional
      FROM new_run r
           CROSS JOIN jsonb_to_recordset(CAST(:templates AS jsonb))
                AS t (number int, name text, config_id int, type text, is_last bool, retries int, resource_key text, deps int,
                      timeout float, isolation text, optional bool)
     ORDER BY r.id, t.number
    RETURNING id, workflow_run_id, workflow_step_number
), new_edge AS (
    INSERT INTO runstepdependency (depends_on_id, step_id)
    SELECT a.id, b.id
      FROM jsonb_array_elements(CAST(:edges AS jsonb)) e
           JOIN new_step a ON a.workflow_step_number = CAST(e ->> 0 AS int)
           JOIN new_step b ON b.workflow_run_id = a.workflow_run_id AND b.workflow_step_number = CAST(e ->> 1 AS int)
), reopened AS (
    UPDATE documentbatch SET completed_date = NULL WHERE id = :batch_id AND completed_date IS NOT NULL
)
SELECT id, run_group_id FROM new_run

-- :name insert_runs_with_steps
{with_queue_front}, target (id) AS (VALUES (CAST(:group_id AS integer))), {new_runs};

-- :name insert_group_with_runs
{with_queue_front}, target AS (
    INSERT INTO rungroup (name, workflow_definition_id, param_definition_id, batch_id, created_date, status, status_date,
                          status_meta, total_runs, remaining_runs, failed_runs, cancelled_runs)
    VALUES (:name, :workflow_id, :param_id, :batch_id, :now, 'PENDING', :now, '{}', :total, :total, 0, 0)
    RETURNING id
), {new_runs};

-- :name notify
SELECT pg_notify(:channel, '');

-- :name step_configs_by_id
SELECT id, created_date, step_type, CAST(config_json AS text) AS config_json, cuml_config_json, cuml_hash FROM stepconfig WHERE id = ANY(:ids);
