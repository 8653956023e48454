-- One at a time decides over content, whether or not it has a row: an upload that records it, a removal that begins. So
-- no bytes are removed of a document that has just come back. SQLite has one writer at a time: nothing needs to be
-- held.
-- :name hold_contents
SELECT 1 WHERE :hashes IS NULL;

-- SQLite has one writer at a time, for whom it waits at the start of the transaction; and its plans do not depend on
-- what it remembers.
-- :name begin_recording
SELECT 1 WHERE :patience IS NULL;

-- Each as [hash, mime_type, file_size, doc_meta as text]. WHERE true keeps SQLite from reading ON as the condition of a
-- join.
-- :name insert_documents
INSERT INTO document (hash, mime_type, file_size, doc_meta)
SELECT json_extract(x.value, '$[0]'), json_extract(x.value, '$[1]'), json_extract(x.value, '$[2]'),
       json_extract(x.value, '$[3]')
  FROM json_each(:documents) x WHERE true
ON CONFLICT (hash) DO NOTHING
RETURNING hash;

-- SQLite has one writer at a time: to read is to hold.
-- :name lock_known_documents
SELECT hash, CAST(doc_meta AS text) AS doc_meta FROM document WHERE hash IN (SELECT value FROM json_each(:hashes));

-- Each as [uri, source]. CROSS JOIN keeps SQLite to this order. SQLite has one writer at a time: to read is to hold.
-- :name lock_known_uris
SELECT u.id, u.uri, u.source, u.doc_hash, u.version, u.batch_id
  FROM json_each(:places) x
 CROSS JOIN documenturi u ON u.uri = json_extract(x.value, '$[0]') AND u.source = json_extract(x.value, '$[1]');

-- Each as [uri, source, doc_hash, batch_id]. WHERE true keeps SQLite from reading ON as the condition of a join.
-- :name insert_uris
INSERT INTO documenturi (uri, source, doc_hash, version, batch_id)
SELECT json_extract(x.value, '$[0]'), json_extract(x.value, '$[1]'), json_extract(x.value, '$[2]'), 1,
       json_extract(x.value, '$[3]')
  FROM json_each(:uris) x WHERE true
ON CONFLICT (uri, source) DO NOTHING
RETURNING id, uri, source, doc_hash, version, batch_id;

-- Each as [uri_id, version, hash, action, batch_id]. SQLite takes JSON apart by paths.
-- :name insert_histories
INSERT INTO documenturihistory (doc_uri_id, version, hash, process_date, action, batch_id, histmeta)
SELECT json_extract(x.value, '$[0]'), json_extract(x.value, '$[1]'), json_extract(x.value, '$[2]'), :now,
       json_extract(x.value, '$[3]'), json_extract(x.value, '$[4]'), '{}'
  FROM json_each(:histories) x;

-- SQLite has one writer at a time: to read is to hold.
-- :name lock_document
SELECT hash, CAST(doc_meta AS text) AS doc_meta FROM document WHERE hash = :hash;

-- SQLite has one writer at a time: to read is to hold.
-- :name lock_uri
SELECT id, doc_hash, version, batch_id FROM documenturi WHERE uri = :uri AND source = :source;

-- CROSS JOIN keeps SQLite to this order: from what was sent to what is stored, by its index.
-- :name stored_uris
SELECT u.uri, u.doc_hash FROM json_each(:uris) x CROSS JOIN documenturi u ON u.uri = x.value AND u.source = :source;

-- As stored_uris.
-- :name etags_of_documents
SELECT d.hash, d.doc_meta ->> '_etag' AS etag FROM json_each(:hashes) x CROSS JOIN document d ON d.hash = x.value;
