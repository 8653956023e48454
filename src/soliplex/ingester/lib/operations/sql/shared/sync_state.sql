-- :name insert_sync_state
INSERT INTO syncstate (source_id, branch, sync_metadata) VALUES (:source_id, :branch, '{}')
ON CONFLICT (source_id) DO NOTHING;

-- :name update_sync_state
UPDATE syncstate
   SET last_commit_sha = :commit, last_sync_date = :now, branch = :branch, sync_metadata = :metadata
 WHERE source_id = :source_id
RETURNING source_id, last_commit_sha, last_sync_date, branch, CAST(sync_metadata AS text) AS sync_metadata;
