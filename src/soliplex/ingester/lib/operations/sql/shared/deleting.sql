-- :name uris_by_name
SELECT id, doc_hash, batch_id FROM documenturi
 WHERE source = :source AND uri {among uris};

-- :name uris_of_documents
SELECT id, doc_hash, batch_id FROM documenturi WHERE doc_hash {among hashes};

-- :name uris_of_source
SELECT uri FROM documenturi WHERE source = :source AND uri > :after ORDER BY uri LIMIT :most;

-- The beginning is compared by letters: what sorts between two texts depends on the database's collation.
-- :name uris_below
SELECT uri FROM documenturi
 WHERE source = :source AND uri > :after AND substr(uri, 1, length(CAST(:beginning AS text))) = CAST(:beginning AS text)
 ORDER BY uri LIMIT :most;

-- :name hashes_without_uris
SELECT hash FROM document d
 WHERE hash {among hashes}
   AND NOT EXISTS (SELECT 1 FROM documenturi u WHERE u.doc_hash = d.hash);

-- Contents that the URIs have or had.
-- :name contents_of_uris
SELECT DISTINCT hash FROM documenturihistory WHERE doc_uri_id {among ids};

-- Those that live nowhere, and that no URI can be rolled back to.
-- :name hashes_without_history
SELECT hash FROM document d
 WHERE hash {among hashes}
   AND NOT EXISTS (SELECT 1 FROM documenturi u WHERE u.doc_hash = d.hash)
   AND NOT EXISTS (SELECT 1 FROM documenturihistory h WHERE h.hash = d.hash);

-- :name orphans
SELECT hash FROM document d WHERE NOT EXISTS (SELECT 1 FROM documenturi u WHERE u.doc_hash = d.hash)
 ORDER BY hash LIMIT :limit;

-- :name delete_history_of_uris
DELETE FROM documenturihistory WHERE doc_uri_id {among ids} RETURNING id;

-- :name delete_history_of_documents
DELETE FROM documenturihistory WHERE hash {among hashes} RETURNING doc_uri_id, version;

-- :name delete_uris
DELETE FROM documenturi WHERE id {among ids} RETURNING id;

-- :name delete_documents
DELETE FROM document WHERE hash {among hashes} RETURNING hash;

-- :name removals_of
SELECT target, started_at FROM documentremoval WHERE doc_hash = :hash;

-- :name removals_begun
SELECT doc_hash FROM documentremoval
 WHERE doc_hash {among hashes} AND target = :target AND started_at IS NOT NULL;

-- :name open_removals
SELECT doc_hash, target FROM documentremoval WHERE started_at IS NULL OR started_at < :stale_before
 ORDER BY requested_at, doc_hash, target LIMIT :limit;

-- :name begin_removals
UPDATE documentremoval SET started_at = :now, holder = :holder
 WHERE target = :target AND doc_hash {among hashes}
   AND (started_at IS NULL OR started_at < :stale_before)
RETURNING doc_hash;

-- Content that has come back is not to be removed.
-- :name drop_removals_of_documents
DELETE FROM documentremoval
 WHERE doc_hash IN (SELECT d.hash FROM document d WHERE d.hash {among hashes})
   AND target = :target;

-- :name drop_removals
DELETE FROM documentremoval WHERE doc_hash {among hashes} AND target = :target;

-- :name give_up_removals
UPDATE documentremoval SET started_at = NULL, holder = NULL WHERE holder = :holder;

-- :name end_removals
DELETE FROM documentremoval WHERE holder = :holder AND doc_hash {among hashes};
