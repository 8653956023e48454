-- :name next_event_due
SELECT min(available_at) AS due FROM lifecyclehistory WHERE {waiting};

-- :name complete_event
UPDATE lifecyclehistory
   SET status = 'COMPLETED', completed_date = :now, status_date = :now, lease_token = NULL, status_message = NULL
 WHERE id = :event_id AND lease_token = :lease
RETURNING id;

-- :name error_event
UPDATE lifecyclehistory
   SET retry = retry + 1, status = CASE WHEN retry + 1 >= retries THEN 'FAILED' ELSE 'ERROR' END, status_date = :now,
       completed_date = CASE WHEN retry + 1 >= retries THEN {moment now} END, status_message = :message,
       lease_token = NULL, available_at = :available_at
 WHERE id = :event_id AND lease_token = :lease
RETURNING status;

-- :name release_event
UPDATE lifecyclehistory SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL
 WHERE id = :event_id AND lease_token = :lease
RETURNING id;

-- :name postpone_event
UPDATE lifecyclehistory
   SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL, status_message = :message,
       status_meta = :meta, available_at = :available_at
 WHERE id = :event_id AND lease_token = :lease
RETURNING id;
