-- :name remove_workers
DELETE FROM workercheckin WHERE id <> :worker_id AND id = ANY(:ids) RETURNING id;

-- :name running_steps_of_workers
SELECT id, workflow_run_id, lease_token, CAST(status_meta AS text) AS status_meta FROM runstep
 WHERE status = 'RUNNING' AND lease_token IS NOT NULL AND worker_id = ANY(:ids);

-- :name release_events_of_workers
UPDATE lifecyclehistory SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL
 WHERE status = 'RUNNING' AND worker_id = ANY(:ids)
RETURNING id;
