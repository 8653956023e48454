-- One at a time decides over content, whether or not it has a row: an upload that records it, a removal that begins. So no
-- bytes are removed of a document that has just come back. SQLite has one writer anyway.
-- :name hold_contents
SELECT 1 WHERE :hashes IS NULL;

-- Whoever deletes URIs of a batch shares it; whoever starts its workflows has it to himself: no run is made for a document
-- that is being deleted. SQLite has one writer anyway.
-- :name share_batch
SELECT 1 WHERE :batch_id IS NULL;

-- :name hold_batch
SELECT 1 WHERE :batch_id IS NULL;

-- :name find_batch
SELECT id, name FROM documentbatch WHERE id = :batch_id;

-- Rows are found by their indexes, whatever a plan made when the tables were small would say; and who waits for another
-- transaction longer than :patience fails: one of a group must not hold up the others. SQLite has one writer anyway.
-- :name begin_recording
SELECT 1 WHERE :patience IS NULL;

-- :name find_batches
SELECT id FROM documentbatch WHERE id IN (SELECT value FROM json_each(:ids));

-- Each as [hash, mime_type, file_size, doc_meta as text].
-- :name insert_documents
INSERT INTO document (hash, mime_type, file_size, doc_meta)
SELECT json_extract(x.value, '$[0]'), json_extract(x.value, '$[1]'), json_extract(x.value, '$[2]'),
       json_extract(x.value, '$[3]')
  FROM json_each(:documents) x WHERE true
ON CONFLICT (hash) DO NOTHING
RETURNING hash;

-- :name lock_known_documents
SELECT hash, CAST(doc_meta AS text) AS doc_meta FROM document WHERE hash IN (SELECT value FROM json_each(:hashes));

-- Each as [uri, source]. CROSS JOIN keeps SQLite to this order.
-- :name lock_known_uris
SELECT u.id, u.uri, u.source, u.doc_hash, u.version, u.batch_id
  FROM json_each(:places) x
 CROSS JOIN documenturi u ON u.uri = json_extract(x.value, '$[0]') AND u.source = json_extract(x.value, '$[1]');

-- Each as [uri, source, doc_hash, batch_id].
-- :name insert_uris
INSERT INTO documenturi (uri, source, doc_hash, version, batch_id)
SELECT json_extract(x.value, '$[0]'), json_extract(x.value, '$[1]'), json_extract(x.value, '$[2]'), 1,
       json_extract(x.value, '$[3]')
  FROM json_each(:uris) x WHERE true
ON CONFLICT (uri, source) DO NOTHING
RETURNING id, uri, source, doc_hash, version, batch_id;

-- Each as [uri_id, version, hash, action, batch_id].
-- :name insert_histories
INSERT INTO documenturihistory (doc_uri_id, version, hash, process_date, action, batch_id, histmeta)
SELECT json_extract(x.value, '$[0]'), json_extract(x.value, '$[1]'), json_extract(x.value, '$[2]'), :now,
       json_extract(x.value, '$[3]'), json_extract(x.value, '$[4]'), '{}'
  FROM json_each(:histories) x;

-- :name lock_document
SELECT hash, CAST(doc_meta AS text) AS doc_meta FROM document WHERE hash = :hash;

-- :name set_document_meta
UPDATE document SET doc_meta = :meta WHERE hash = :hash;

-- :name lock_uri
SELECT id, doc_hash, version, batch_id FROM documenturi WHERE uri = :uri AND source = :source;

-- :name replace_content
UPDATE documenturi SET doc_hash = :hash, version = version + 1, batch_id = :batch_id WHERE id = :id
RETURNING id, doc_hash, version, batch_id;

-- :name move_uri
UPDATE documenturi SET batch_id = :batch_id WHERE id = :id RETURNING id, doc_hash, version, batch_id;

-- :name insert_history
INSERT INTO documenturihistory (doc_uri_id, version, hash, process_date, action, batch_id, histmeta)
VALUES (:uri_id, :version, :hash, :now, :action, :batch_id, :meta);

-- What a step did to a document happened at every URI it lives at.
-- :name insert_history_of_document
INSERT INTO documenturihistory (doc_uri_id, version, hash, process_date, action, batch_id, histmeta)
SELECT id, version, doc_hash, :now, :action, batch_id, :meta FROM documenturi WHERE doc_hash = :hash
RETURNING id;

-- CROSS JOIN keeps SQLite to this order: from what was sent to what is stored, by its index.
-- :name stored_uris
SELECT u.uri, u.doc_hash FROM json_each(:uris) x CROSS JOIN documenturi u ON u.uri = x.value AND u.source = :source;

-- :name etags_of_documents
SELECT d.hash, d.doc_meta ->> '_etag' AS etag FROM json_each(:hashes) x CROSS JOIN document d ON d.hash = x.value;

-- :name batch_documents
SELECT u.doc_hash FROM documenturi u WHERE u.batch_id = :batch_id GROUP BY u.doc_hash ORDER BY min(u.id);

-- :name batch_documents_without_run
SELECT u.doc_hash FROM documenturi u
 WHERE u.batch_id = :batch_id
   AND u.doc_hash NOT IN (SELECT r.doc_id FROM workflowrun r WHERE r.run_group_id = :group_id AND r.doc_id IS NOT NULL)
 GROUP BY u.doc_hash ORDER BY min(u.id);

-- :name newest_group
SELECT id FROM rungroup
 WHERE batch_id = :batch_id AND workflow_definition_id = :workflow_id AND param_definition_id = :param_id
 ORDER BY id DESC LIMIT 1;

-- :name newest_batch_of_document
SELECT batch_id FROM documenturi WHERE doc_hash = :hash ORDER BY id DESC LIMIT 1;
