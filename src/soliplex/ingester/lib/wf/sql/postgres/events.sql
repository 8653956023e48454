-- SKIP LOCKED: an event that another worker claims is left to it.
-- :name claim_events
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM lifecyclehistory WHERE {waiting} AND available_at <= :now
     ORDER BY available_at, id LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE lifecyclehistory
   SET status = 'RUNNING', status_date = :now, worker_id = :worker_id, lease_token = :lease
  FROM picked WHERE id = picked_id
RETURNING id, event, handler_name, run_group_id, workflow_run_id, step_id, retry, retries,
          CAST(status_meta AS text) AS status_meta;
