-- :name uris_by_name
SELECT id, doc_hash, batch_id FROM documenturi WHERE source = :source AND uri = ANY(:uris);

-- :name uris_of_documents
SELECT id, doc_hash, batch_id FROM documenturi WHERE doc_hash = ANY(:hashes);

-- :name lock_documents
SELECT hash FROM document WHERE hash = ANY(:hashes) ORDER BY hash FOR UPDATE;

-- :name lock_uris
SELECT id, doc_hash, batch_id FROM documenturi WHERE id = ANY(:ids) ORDER BY id FOR UPDATE;

-- :name hashes_without_uris
SELECT hash FROM document d
 WHERE hash = ANY(:hashes) AND NOT EXISTS (SELECT 1 FROM documenturi u WHERE u.doc_hash = d.hash);

-- :name delete_history_of_uris
DELETE FROM documenturihistory WHERE doc_uri_id = ANY(:ids) RETURNING id;

-- :name delete_history_of_documents
DELETE FROM documenturihistory WHERE hash = ANY(:hashes) RETURNING doc_uri_id, version;

-- :name delete_uris
DELETE FROM documenturi WHERE id = ANY(:ids) RETURNING id;

-- :name delete_documents
DELETE FROM document WHERE hash = ANY(:hashes) RETURNING hash;

-- :name insert_removals
INSERT INTO documentremoval (doc_hash, target, requested_at)
SELECT x ->> 0, x ->> 1, CAST(:now AS timestamptz) FROM jsonb_array_elements(CAST(:removals AS jsonb)) x
ON CONFLICT (doc_hash, target) DO UPDATE SET requested_at = excluded.requested_at, started_at = NULL, holder = NULL;

-- :name removals_begun
SELECT doc_hash FROM documentremoval WHERE doc_hash = ANY(:hashes) AND target = :target AND started_at IS NOT NULL;

-- :name begin_removals
UPDATE documentremoval SET started_at = :now, holder = :holder
 WHERE target = :target AND doc_hash = ANY(:hashes) AND (started_at IS NULL OR started_at < :stale_before)
RETURNING doc_hash;

-- :name drop_removals_of_documents
DELETE FROM documentremoval
 WHERE doc_hash IN (SELECT d.hash FROM document d WHERE d.hash = ANY(:hashes)) AND target = :target;

-- :name end_removals
DELETE FROM documentremoval WHERE holder = :holder AND doc_hash = ANY(:hashes);

-- :name contents_of_uris
SELECT DISTINCT hash FROM documenturihistory WHERE doc_uri_id = ANY(:ids);

-- :name hashes_without_history
SELECT hash FROM document d
 WHERE hash = ANY(:hashes)
   AND NOT EXISTS (SELECT 1 FROM documenturi u WHERE u.doc_hash = d.hash)
   AND NOT EXISTS (SELECT 1 FROM documenturihistory h WHERE h.hash = d.hash);
