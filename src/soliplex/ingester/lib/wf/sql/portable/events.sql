-- :name claim_events
UPDATE lifecyclehistory
   SET status = 'RUNNING', status_date = :now, worker_id = :worker_id, lease_token = :lease
 WHERE id IN (SELECT id FROM lifecyclehistory WHERE {waiting} AND available_at <= :now ORDER BY available_at, id LIMIT :limit)
RETURNING id, event, handler_name, run_group_id, workflow_run_id, step_id, retry, retries,
          CAST(status_meta AS text) AS status_meta;

-- :name next_event_due
SELECT min(available_at) AS due FROM lifecyclehistory WHERE {waiting};

-- :name complete_event
UPDATE lifecyclehistory SET status = 'COMPLETED', completed_date = :now, status_date = :now, lease_token = NULL
 WHERE id = :event_id AND lease_token = :lease
RETURNING id;

-- :name error_event
UPDATE lifecyclehistory
   SET retry = retry + 1, status = CASE WHEN retry + 1 >= retries THEN 'FAILED' ELSE 'ERROR' END, status_date = :now,
       completed_date = CASE WHEN retry + 1 >= retries THEN :now END, status_message = :message, lease_token = NULL,
       available_at = :available_at
 WHERE id = :event_id AND lease_token = :lease
RETURNING status;

-- :name release_event
UPDATE lifecyclehistory SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL
 WHERE id = :event_id AND lease_token = :lease
RETURNING id;
