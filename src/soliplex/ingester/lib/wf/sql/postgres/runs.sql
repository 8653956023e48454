-- The group is held until the end of the transaction: it neither ends nor is cancelled meanwhile.
-- :name lock_group
SELECT id, workflow_definition_id, batch_id, status, status_date, completed_date, cancel_requested_at,
       delete_requested_at FROM rungroup
 WHERE id = :group_id FOR NO KEY UPDATE;

-- Inserts the runs of `target` with their steps in one statement, since each statement costs a round trip to the
-- server. As `notify` does, it also tells idle workers of other processes which types of steps have become ready.
-- :fragment new_runs
new_run AS (
    INSERT INTO workflowrun (workflow_definition_id, run_group_id, batch_id, doc_id, priority, created_date, status,
                             status_date, status_meta, run_params, input, remaining_steps, failed_steps, queue_key,
                             run_key, deadline, parent_step_id, definition_id)
    SELECT :workflow_id, target.id, :batch_id, x.value ->> 'doc_id', :priority, :now, 'PENDING', CAST(:now AS timestamptz), '{}',
           coalesce(x.value -> 'params', '{}'), x.value -> 'input', :steps, 0, front.queue_key + x.position - 1,
           x.value ->> 'key', CAST(:deadline AS timestamptz), CAST(x.value ->> 'parent_step_id' AS bigint),
           CAST(:definition_id AS bigint)
      FROM pg_notify(:channel, :ready_types) CROSS JOIN front CROSS JOIN target
           CROSS JOIN jsonb_array_elements(CAST(:runs AS jsonb)) WITH ORDINALITY AS x (value, position)
    RETURNING id, run_group_id, priority, queue_key
), new_step AS (
    INSERT INTO runstep (workflow_run_id, workflow_step_number, workflow_step_name, step_config_id, step_type, is_last_step,
                         created_date, priority, queue_key, retry, retries, status, status_meta, resource_key,
                         remaining_deps, remaining_tasks, timeout_seconds, isolation, optional, available_at,
                         max_failures, gather)
    SELECT r.id, t.number, t.name, t.config_id, t.type, t.is_last, :now,
           LEAST(GREATEST(CAST(r.priority AS bigint) + t.priority, -2147483648), 2147483647), r.queue_key, 0, t.retries, 'PENDING', '{}',
           t.resource_key, t.deps, 0, t.timeout, t.isolation, t.optional,
           CASE WHEN t.deps = 0 THEN CAST(:start_at AS timestamptz) END, t.max_failures, t.gather
      FROM new_run r
           CROSS JOIN jsonb_to_recordset(CAST(:templates AS jsonb))
                AS t (number int, name text, config_id int, type text, is_last bool, retries int, resource_key text, deps int,
                      timeout float, isolation text, optional bool, max_failures int, gather bool, priority int)
     ORDER BY r.id, t.number
    RETURNING id, workflow_run_id, workflow_step_number
), new_edge AS (
    INSERT INTO runstepdependency (depends_on_id, step_id)
    SELECT a.id, b.id
      FROM jsonb_array_elements(CAST(:edges AS jsonb)) e
           JOIN new_step a ON a.workflow_step_number = CAST(e ->> 0 AS int)
           JOIN new_step b ON b.workflow_run_id = a.workflow_run_id AND b.workflow_step_number = CAST(e ->> 1 AS int)
)
SELECT id, run_group_id FROM new_run

-- One statement, since each costs as much as its answer takes to arrive.
-- :name insert_runs_with_steps
{with_queue_front}, target (id) AS (VALUES (CAST(:group_id AS integer))), {new_runs};

-- As insert_runs_with_steps, with the group.
-- :name insert_group_with_runs
{with_queue_front}, target AS (
    INSERT INTO rungroup (name, workflow_definition_id, param_definition_id, batch_id, created_date, status, status_date,
                          status_meta, total_runs, remaining_runs, failed_runs, cancelled_runs)
    VALUES (:name, :workflow_id, :param_id, :batch_id, :now, 'PENDING', :now, '{}', :total, :total, 0, 0)
    RETURNING id
), {new_runs};

-- Tells idle workers of other processes that something has become ready.
-- :name notify
SELECT pg_notify(:channel, :types);
