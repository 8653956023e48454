-- FOR UPDATE: the lock cannot go to another before this transaction ends.
-- :name hold_lock
SELECT resource_key FROM resourcelock WHERE resource_key = :resource_key AND holder_id = :holder_id FOR UPDATE;

-- PostgreSQL's max is an aggregate only.
-- :name take_fence
INSERT INTO resourcefence (resource_key, token, holder_id, taken_at)
VALUES (:resource_key, 1 + CAST(:above AS bigint), :holder_id, :now)
ON CONFLICT (resource_key) DO UPDATE
   SET token = 1 + greatest(resourcefence.token, CAST(:above AS bigint)), holder_id = excluded.holder_id,
       taken_at = excluded.taken_at
RETURNING token;
