-- SQLite has one writer at a time: no row needs a lock.
-- :name claim_events
UPDATE lifecyclehistory
   SET status = 'RUNNING', status_date = :now, worker_id = :worker_id, lease_token = :lease
 WHERE id IN (SELECT id FROM lifecyclehistory WHERE {waiting} AND available_at <= :now ORDER BY available_at, id LIMIT :limit)
RETURNING id, event, handler_name, run_group_id, workflow_run_id, step_id, retry, retries,
          CAST(status_meta AS text) AS status_meta;
