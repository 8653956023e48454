-- :name hold_contents
SELECT pg_advisory_xact_lock(hashtextextended(hash, 1112884803)) FROM unnest(CAST(:hashes AS text[])) WITH ORDINALITY x (hash, n) ORDER BY n;

-- Locks on a number and not on the batch's row: the engine updates that row when the batch's last group ends, holding runs
-- and groups, which whoever starts workflows takes after the batch. 1112884803 is any number, so long as all use the same.
-- :name share_batch
SELECT pg_advisory_xact_lock_shared(1112884803, :batch_id);

-- :name hold_batch
SELECT pg_advisory_xact_lock(1112884803, :batch_id);

-- :name find_batch
SELECT id, name FROM documentbatch WHERE id = :batch_id FOR KEY SHARE;

-- :name lock_document
SELECT hash, CAST(doc_meta AS text) AS doc_meta FROM document WHERE hash = :hash FOR NO KEY UPDATE;

-- :name lock_uri
SELECT id, doc_hash, version, batch_id FROM documenturi WHERE uri = :uri AND source = :source FOR UPDATE;

-- :name insert_history_of_document
INSERT INTO documenturihistory (doc_uri_id, version, hash, process_date, action, batch_id, histmeta)
SELECT id, version, doc_hash, CAST(:now AS timestamptz), CAST(:action AS text), batch_id, CAST(:meta AS jsonb)
  FROM documenturi WHERE doc_hash = :hash
RETURNING id;

-- Two questions and no join: statistics taken while a large upload was not yet committed say that the tables are empty,
-- and a join of empty tables is planned as reading all of one for each row of the other.
-- :name stored_uris
SELECT uri, doc_hash FROM documenturi WHERE source = :source AND uri = ANY(:uris);

-- :name etags_of_documents
SELECT hash, doc_meta ->> '_etag' AS etag FROM document WHERE hash = ANY(:hashes);
