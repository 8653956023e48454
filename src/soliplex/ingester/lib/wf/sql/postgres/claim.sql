-- SKIP LOCKED: a step being claimed elsewhere is passed over, not waited for. MATERIALIZED: a subquery in the UPDATE could be
-- run again and claim more than the limit.
-- :name claim_ready
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM runstep WHERE {ready} AND step_type = :step_type
     ORDER BY priority DESC, queue_key, id LIMIT :limit
       FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE runstep
   SET status = 'RUNNING', worker_id = :worker_id, lease_token = :lease, start_date = :now, status_date = :now,
       status_message = NULL
  FROM picked WHERE id = picked_id
RETURNING {claimed_columns};

-- :name claim_ready_keyed
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM runstep
     WHERE {ready_keyed} AND step_type = :step_type AND resource_key = :resource_key
     ORDER BY priority DESC, queue_key, id LIMIT :limit
       FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE runstep
   SET status = 'RUNNING', worker_id = :worker_id, lease_token = :lease, start_date = :now, status_date = :now,
       status_message = NULL
  FROM picked WHERE id = picked_id
RETURNING {claimed_columns};

-- :name promote_due_steps
WITH due AS MATERIALIZED (
    SELECT id AS due_id FROM runstep WHERE available_at IS NOT NULL AND available_at <= :now
     ORDER BY available_at LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE runstep SET available_at = NULL FROM due WHERE id = due_id RETURNING id;

-- :name runs_by_id
SELECT {run_columns} FROM workflowrun WHERE id = ANY(:ids);

-- :name claimed_runs
SELECT {claimed_run_columns} FROM workflowrun WHERE id = ANY(:ids);

-- SKIP LOCKED: whoever holds a run may be waiting for the step that was just claimed.
-- :name start_runs
WITH waiting AS MATERIALIZED (
    SELECT id AS waiting_id FROM workflowrun WHERE id = ANY(:ids) AND status = 'PENDING' FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE workflowrun SET status = 'RUNNING', start_date = coalesce(start_date, :now), status_date = :now
  FROM waiting WHERE id = waiting_id
RETURNING {claimed_run_columns}, {group_status};

-- In the order of ids, as everywhere: two workers that start the same groups cannot wait for one another.
-- :name start_groups
WITH waiting AS MATERIALIZED (
    SELECT id AS waiting_id FROM rungroup WHERE id = ANY(:ids) AND status = 'PENDING' ORDER BY id FOR NO KEY UPDATE
)
UPDATE rungroup SET status = 'RUNNING', start_date = coalesce(start_date, :now), status_date = :now
  FROM waiting WHERE id = waiting_id AND status = 'PENDING'
RETURNING id;
