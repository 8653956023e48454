-- :name check_in
INSERT INTO workercheckin (id, first_checkin, last_checkin, hostname, pid, worker_meta)
VALUES (:worker_id, :now, :now, :hostname, :pid, :meta)
ON CONFLICT (id) DO UPDATE SET last_checkin = excluded.last_checkin, worker_meta = excluded.worker_meta
RETURNING first_checkin;

-- :name check_out
DELETE FROM workercheckin WHERE id = :worker_id RETURNING id;

-- Only workers that are processes of this product. Workers outside have no lock whose loss would tell of their death.
-- :name last_checkins
SELECT id, last_checkin FROM workercheckin WHERE id NOT LIKE 'outside:%';

-- Workers outside that have not asked for more time.
-- :name expired_workers_outside
SELECT id FROM workercheckin WHERE id LIKE 'outside:%' AND worker_meta ->> 'expires_at' <= :now;

-- :name worker_by_id
SELECT id, hostname FROM workercheckin WHERE id = :worker_id;

-- :name held_outside
SELECT {claimed_columns}, worker_id, lease_token, start_date FROM runstep
 WHERE status = 'RUNNING' AND worker_id = :worker_id AND lease_token = :lease;

-- Reports count only while the lease holds. What a handler said at an earlier attempt is replaced.
-- :name note_progress
UPDATE runstep SET progress = {json progress}
 WHERE id = :id AND status = 'RUNNING' AND lease_token = :lease
RETURNING id;

-- Whoever deletes the row reaps the worker; a second reaper gets no row back.
-- :name remove_silent_workers
DELETE FROM workercheckin
 WHERE id <> :worker_id AND last_checkin < :silent_since AND id NOT LIKE 'outside:%' RETURNING id;

-- :name remove_workers
DELETE FROM workercheckin WHERE id <> :worker_id AND id {among ids} RETURNING id;

-- Other workers that hold steps or events without a check-in. Such a worker was reaped, came back, and died before it
-- could check in; or it checked out and could not give back everything.
-- :name workers_without_checkin
SELECT s.worker_id AS id FROM runstep s
 WHERE s.status = 'RUNNING' AND s.lease_token IS NOT NULL AND s.worker_id <> :worker_id
   AND NOT EXISTS (SELECT 1 FROM workercheckin w WHERE w.id = s.worker_id)
UNION
SELECT e.worker_id FROM lifecyclehistory e
 WHERE e.status = 'RUNNING' AND e.worker_id <> :worker_id
   AND NOT EXISTS (SELECT 1 FROM workercheckin w WHERE w.id = e.worker_id)
 LIMIT 100;

-- :name running_steps_of_workers
SELECT id, workflow_run_id, lease_token, CAST(status_meta AS text) AS status_meta FROM runstep
 WHERE status = 'RUNNING' AND lease_token IS NOT NULL AND worker_id {among ids};

-- :name release_events_of_workers
UPDATE lifecyclehistory SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL
 WHERE status = 'RUNNING' AND worker_id {among ids}
RETURNING id;

-- :name release_events_of_lease
UPDATE lifecyclehistory SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL
 WHERE status = 'RUNNING' AND worker_id = :worker_id AND lease_token = :lease
RETURNING id;

-- The steps this worker holds, and whether it should stop them: their run was cancelled, or a step beside them failed.
-- :name steps_held
SELECT s.id, s.lease_token, r.cancel_requested_at IS NOT NULL AS is_stopping
  FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id
 WHERE s.status = 'RUNNING' AND s.lease_token IS NOT NULL AND s.worker_id = :worker_id;

-- The types of steps that only the processes of living workers take.
-- :name living_processes
SELECT DISTINCT worker_meta ->> 'process' AS process FROM workercheckin WHERE worker_meta ->> 'process' IS NOT NULL;
