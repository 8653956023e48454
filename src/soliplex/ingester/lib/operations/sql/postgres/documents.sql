-- Locks on numbers made of the hashes, since the content may have no row; taken in the order given.
-- :name hold_contents
SELECT pg_advisory_xact_lock(hashtextextended(hash, 1112884803))
  FROM unnest(CAST(:hashes AS text[])) WITH ORDINALITY x (hash, n) ORDER BY n;

-- Rows are found by their indexes, whatever a plan made when the tables were small would say; and who waits for another
-- transaction longer than :patience fails: one of a group must not hold up the others.
-- :name begin_recording
SELECT set_config('lock_timeout', coalesce(CAST(:patience AS text), current_setting('lock_timeout')), true),
       set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true);

-- PostgreSQL takes JSON arrays apart by position; inserted in the order given, as everybody inserts them.
-- :name insert_documents
INSERT INTO document (hash, mime_type, file_size, doc_meta)
SELECT x ->> 0, x ->> 1, CAST(x ->> 2 AS bigint), CAST(x ->> 3 AS jsonb)
  FROM jsonb_array_elements(CAST(:documents AS jsonb)) WITH ORDINALITY y (x, n) ORDER BY n
ON CONFLICT (hash) DO NOTHING
RETURNING hash;

-- Locked in the order of hashes.
-- :name lock_known_documents
SELECT hash, CAST(doc_meta AS text) AS doc_meta FROM document WHERE hash = ANY(:hashes) ORDER BY hash
   FOR NO KEY UPDATE;

-- Locked in the order given, which is everybody's.
-- :name lock_known_uris
SELECT u.id, u.uri, u.source, u.doc_hash, u.version, u.batch_id
  FROM jsonb_array_elements(CAST(:places AS jsonb)) WITH ORDINALITY y (x, n)
  JOIN documenturi u ON u.uri = x ->> 0 AND u.source = x ->> 1
 ORDER BY n FOR UPDATE OF u;

-- PostgreSQL takes JSON arrays apart by position; inserted in the order given, as everybody inserts them.
-- :name insert_uris
INSERT INTO documenturi (uri, source, doc_hash, version, batch_id)
SELECT x ->> 0, x ->> 1, x ->> 2, 1, CAST(x ->> 3 AS integer)
  FROM jsonb_array_elements(CAST(:uris AS jsonb)) WITH ORDINALITY y (x, n) ORDER BY n
ON CONFLICT (uri, source) DO NOTHING
RETURNING id, uri, source, doc_hash, version, batch_id;

-- PostgreSQL takes JSON arrays apart by position.
-- :name insert_histories
INSERT INTO documenturihistory (doc_uri_id, version, hash, process_date, action, batch_id, histmeta)
SELECT CAST(x ->> 0 AS integer), CAST(x ->> 1 AS integer), x ->> 2, CAST(:now AS timestamptz), x ->> 3,
       CAST(x ->> 4 AS integer), '{}'
  FROM jsonb_array_elements(CAST(:histories AS jsonb)) WITH ORDINALITY y (x, n) ORDER BY n;

-- Held until the end of the transaction: the document is neither changed nor deleted meanwhile.
-- :name lock_document
SELECT hash, CAST(doc_meta AS text) AS doc_meta FROM document WHERE hash = :hash FOR NO KEY UPDATE;

-- Held until the end of the transaction: no two replace the content of a place at once.
-- :name lock_uri
SELECT id, doc_hash, version, batch_id FROM documenturi WHERE uri = :uri AND source = :source FOR UPDATE;

-- Two questions and no join: statistics taken while a large upload was not yet committed say that the tables are empty,
-- and a join of empty tables is planned as reading all of one for each row of the other.
-- :name stored_uris
SELECT uri, doc_hash FROM documenturi WHERE source = :source AND uri = ANY(:uris);

-- As stored_uris.
-- :name etags_of_documents
SELECT hash, doc_meta ->> '_etag' AS etag FROM document WHERE hash = ANY(:hashes);
