-- SQLite has one writer at a time, so nothing can come between the choice and the update.
-- :name claim_ready
UPDATE runstep
   SET status = 'RUNNING', worker_id = :worker_id, lease_token = :lease, start_date = :now, status_date = :now,
       status_message = NULL
 WHERE id IN (SELECT id FROM runstep WHERE {ready} AND step_type = :step_type
               ORDER BY priority DESC, queue_key, id LIMIT :limit)
RETURNING {claimed_columns};

-- As claim_ready, for the steps of one resource. SQLite has one writer at a time: no row needs a lock.
-- :name claim_ready_keyed
UPDATE runstep
   SET status = 'RUNNING', worker_id = :worker_id, lease_token = :lease, start_date = :now, status_date = :now,
       status_message = NULL
 WHERE id IN (SELECT id FROM runstep WHERE {ready_keyed} AND step_type = :step_type AND resource_key = :resource_key
               ORDER BY priority DESC, queue_key, id LIMIT :limit)
RETURNING {claimed_columns};

-- Steps whose time has come join the ready ones. A few hundred at a time keep the transaction short.
-- SQLite has one writer at a time: no row needs a lock.
-- :name promote_due_steps
UPDATE runstep SET available_at = NULL, awaits = NULL
 WHERE id IN (SELECT id FROM runstep WHERE available_at IS NOT NULL AND available_at <= :now ORDER BY available_at LIMIT 500)
RETURNING id;

-- SQLite has one writer at a time: no row needs a lock.
-- :name start_runs
UPDATE workflowrun SET status = 'RUNNING', start_date = coalesce(start_date, :now), status_date = :now
 WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'PENDING'
RETURNING {claimed_run_columns}, {group_status};

-- The plus keeps SQLite from using the index on the status, by which it would read every group that is PENDING.
-- :name start_groups
UPDATE rungroup SET status = 'RUNNING', start_date = coalesce(start_date, :now), status_date = :now
 WHERE id IN (SELECT value FROM json_each(:ids)) AND +status = 'PENDING'
RETURNING id;
