-- :fragment waiting
status IN ('PENDING', 'ERROR')

-- A step that can be claimed now. The words are those of the partial indexes: SQLite uses such an index only when a query
-- repeats its condition term by term.
-- :fragment ready
status IN ('PENDING', 'ERROR') AND remaining_deps = 0 AND remaining_tasks = 0 AND available_at IS NULL
    AND resource_key IS NULL

-- :fragment ready_keyed
status IN ('PENDING', 'ERROR') AND remaining_deps = 0 AND remaining_tasks = 0 AND available_at IS NULL
    AND resource_key IS NOT NULL

-- What the claim itself sets is not read back.
-- A lock that cannot be taken over (see acquire_lock).
-- :fragment live
(l.expires_at > :now OR l.holder_kind = 'worker')

-- :fragment claimed_columns
id, workflow_run_id, workflow_step_number, workflow_step_name, step_config_id, step_type, is_last_step, created_date,
    priority, queue_key, retry, retries, CAST(status_meta AS text) AS status_meta, resource_key, parent_step_id, item_index, timeout_seconds, isolation,
    optional, CAST(input AS text) AS input

-- What a worker needs to know of a run.
-- :fragment claimed_run_columns
id, workflow_definition_id, run_group_id, batch_id, doc_id, status, CAST(run_params AS text) AS run_params,
    CAST(input AS text) AS input, cancel_requested_at

-- :fragment group_status
(SELECT g.status FROM rungroup g WHERE g.id = run_group_id) AS group_status

-- :fragment run_columns
id, workflow_definition_id, run_group_id, batch_id, doc_id, priority, created_date, start_date, completed_date, status,
    status_date, status_message, status_meta, run_params, input, remaining_steps, failed_steps, queue_key, cancel_requested_at
