-- SQLite has one writer at a time: what is read in a writing transaction stays so until its end.
-- :name hold_lock
SELECT resource_key FROM resourcelock WHERE resource_key = :resource_key AND holder_id = :holder_id;

-- With two arguments, SQLite's max is the greater of them.
-- :name take_fence
INSERT INTO resourcefence (resource_key, token, holder_id, taken_at)
VALUES (:resource_key, 1 + :above, :holder_id, :now)
ON CONFLICT (resource_key) DO UPDATE
   SET token = 1 + max(resourcefence.token, :above), holder_id = excluded.holder_id, taken_at = excluded.taken_at
RETURNING token;
