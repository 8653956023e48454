-- Locked in the order of hashes: two who hold several never wait for each other.
-- :name lock_documents
SELECT hash FROM document WHERE hash = ANY(:hashes) ORDER BY hash FOR UPDATE;

-- Locked in the order of ids.
-- :name lock_uris
SELECT id, doc_hash, batch_id FROM documenturi WHERE id = ANY(:ids) ORDER BY id FOR UPDATE;

-- PostgreSQL takes JSON arrays apart by position.
-- :name insert_removals
INSERT INTO documentremoval (doc_hash, target, requested_at)
SELECT x ->> 0, x ->> 1, CAST(:now AS timestamptz) FROM jsonb_array_elements(CAST(:removals AS jsonb)) x
ON CONFLICT (doc_hash, target) DO UPDATE SET requested_at = excluded.requested_at, started_at = NULL, holder = NULL;
