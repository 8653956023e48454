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

-- :name begin_recording
SELECT set_config('lock_timeout', coalesce(CAST(:patience AS text), current_setting('lock_timeout')), true), set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true);

-- :name find_batches
SELECT id FROM documentbatch WHERE id = ANY(:ids) ORDER BY id FOR KEY SHARE;

-- :name insert_documents
INSERT INTO document (hash, mime_type, file_size, doc_meta)
SELECT x ->> 0, x ->> 1, CAST(x ->> 2 AS bigint), CAST(x ->> 3 AS jsonb)
  FROM jsonb_array_elements(CAST(:documents AS jsonb)) WITH ORDINALITY y (x, n) ORDER BY n
ON CONFLICT (hash) DO NOTHING
RETURNING hash;

-- :name lock_known_documents
SELECT hash, CAST(doc_meta AS text) AS doc_meta FROM document WHERE hash = ANY(:hashes) ORDER BY hash
   FOR NO KEY UPDATE;

-- :name lock_known_uris
SELECT u.id, u.uri, u.source, u.doc_hash, u.version, u.batch_id
  FROM jsonb_array_elements(CAST(:places AS jsonb)) WITH ORDINALITY y (x, n)
  JOIN documenturi u ON u.uri = x ->> 0 AND u.source = x ->> 1
 ORDER BY n FOR UPDATE OF u;

-- :name insert_uris
INSERT INTO documenturi (uri, source, doc_hash, version, batch_id)
SELECT x ->> 0, x ->> 1, x ->> 2, 1, CAST(x ->> 3 AS integer)
  FROM jsonb_array_elements(CAST(:uris AS jsonb)) WITH ORDINALITY y (x, n) ORDER BY n
ON CONFLICT (uri, source) DO NOTHING
RETURNING id, uri, source, doc_hash, version, batch_id;

-- :name insert_histories
INSERT INTO documenturihistory (doc_uri_id, version, hash, process_date, action, batch_id, histmeta)
SELECT CAST(x ->> 0 AS integer), CAST(x ->> 1 AS integer), x ->> 2, CAST(:now AS timestamptz), x ->> 3,
       CAST(x ->> 4 AS integer), '{}'
  FROM jsonb_array_elements(CAST(:histories AS jsonb)) WITH ORDINALITY y (x, n) ORDER BY n;

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
