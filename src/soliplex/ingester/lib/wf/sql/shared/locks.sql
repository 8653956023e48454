-- One holder per key. An expired lock is taken over by whoever comes first; not so one of a worker, whose clock may be
-- wrong: it goes with the last step that runs under it, or with the worker.
-- :name acquire_lock
INSERT INTO resourcelock (resource_key, holder_id, holder_kind, step_id, acquired_at, expires_at, holder_meta)
VALUES (:resource_key, :holder_id, :holder_kind, :step_id, :now, :expires_at, :meta)
ON CONFLICT (resource_key) DO UPDATE
   SET holder_id = excluded.holder_id, holder_kind = excluded.holder_kind, step_id = excluded.step_id,
       acquired_at = excluded.acquired_at, expires_at = excluded.expires_at, holder_meta = excluded.holder_meta
 WHERE resourcelock.expires_at <= :now AND resourcelock.holder_kind <> 'worker'
RETURNING resource_key;

-- Who waits for a resource stands in a queue. One who has not asked again in time has given up, or died.
-- :name sweep_waiters
DELETE FROM resourcewaiter WHERE expires_at <= :now;

-- Whoever waits already keeps the place, and need not write that down at every look.
-- :name join_queue
INSERT INTO resourcewaiter (resource_key, holder_id, since, expires_at) VALUES (:resource_key, :holder_id, :now, :expires_at)
ON CONFLICT (resource_key, holder_id) DO UPDATE SET expires_at = excluded.expires_at
 WHERE resourcewaiter.expires_at <= :renew_before;

-- As join_queue, for a worker: wherever others wait for what its steps need.
-- :name join_queues
INSERT INTO resourcewaiter (resource_key, holder_id, since, expires_at)
SELECT DISTINCT w.resource_key, CAST(:holder_id AS text), {moment now}, {moment expires_at} FROM resourcewaiter w
 WHERE w.expires_at > :now
   AND EXISTS (SELECT 1 FROM runstep WHERE {ready_keyed} AND step_type = :step_type AND resource_key = w.resource_key)
ON CONFLICT (resource_key, holder_id) DO UPDATE SET expires_at = excluded.expires_at
 WHERE resourcewaiter.expires_at <= :renew_before;

-- :name leave_queue
DELETE FROM resourcewaiter WHERE resource_key = :resource_key AND holder_id = :holder_id;

-- :name first_in_queue
SELECT holder_id FROM resourcewaiter WHERE resource_key = :resource_key AND expires_at > :now ORDER BY id LIMIT 1;

-- The locks of workers that have died. What their steps held goes with the steps; this is what a hard retry left.
-- :name drop_locks_of_workers
DELETE FROM resourcelock WHERE holder_kind = 'worker' AND holder_meta ->> 'worker_id' {among ids};

-- :name refresh_lock
UPDATE resourcelock SET expires_at = :expires_at WHERE resource_key = :resource_key AND holder_id = :holder_id
RETURNING resource_key;

-- :name refresh_locks_of_leases
UPDATE resourcelock SET expires_at = :expires_at WHERE holder_id {among leases}
RETURNING holder_id;

-- :name release_lock
DELETE FROM resourcelock WHERE resource_key = :resource_key AND holder_id = :holder_id RETURNING resource_key;

-- :name force_release_lock
DELETE FROM resourcelock WHERE resource_key = :resource_key
RETURNING resource_key, holder_id, holder_kind, step_id, acquired_at, expires_at,
          CAST(holder_meta AS text) AS holder_meta;

-- :name sweep_locks
DELETE FROM resourcelock
 WHERE expires_at <= :now
   AND NOT EXISTS (SELECT 1 FROM runstep s
                    WHERE s.status = 'RUNNING' AND s.worker_id = holder_meta ->> 'worker_id'
                      AND s.lease_token = resourcelock.holder_id)
RETURNING resource_key;

-- :name find_lock
SELECT resource_key, holder_id, holder_kind, step_id, acquired_at, expires_at, CAST(holder_meta AS text) AS holder_meta
  FROM resourcelock
 WHERE resource_key = :resource_key;

-- :name name_step_of_lock
UPDATE resourcelock SET step_id = :step_id WHERE resource_key = :resource_key AND holder_id = :holder_id;
