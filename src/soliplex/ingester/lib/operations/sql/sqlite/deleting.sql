-- Documents first, URIs after them, runs and groups last, each in their order: everywhere. SQLite has one writer at a
-- time: to read is to hold.
-- :name lock_documents
SELECT hash FROM document WHERE hash IN (SELECT value FROM json_each(:hashes));

-- SQLite has one writer at a time: to read is to hold.
-- :name lock_uris
SELECT id, doc_hash, batch_id FROM documenturi WHERE id IN (SELECT value FROM json_each(:ids));

-- A removal that is under way goes on; asked for again, it is done again from the start. SQLite takes JSON apart by
-- paths. WHERE true keeps SQLite from reading ON as the condition of a join.
-- :name insert_removals
INSERT INTO documentremoval (doc_hash, target, requested_at)
SELECT json_extract(x.value, '$[0]'), json_extract(x.value, '$[1]'), :now FROM json_each(:removals) x WHERE true
ON CONFLICT (doc_hash, target) DO UPDATE SET requested_at = excluded.requested_at, started_at = NULL, holder = NULL;
