-- :name set_document_meta
UPDATE document SET doc_meta = :meta WHERE hash = :hash;

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
SELECT id, version, doc_hash, {moment now}, CAST(:action AS text), batch_id, {json meta}
  FROM documenturi WHERE doc_hash = :hash
RETURNING id;

-- :name newest_place_of_document
SELECT batch_id, source FROM documenturi WHERE doc_hash = :hash ORDER BY id DESC LIMIT 1;

-- By the partial index of runs in trouble, whose condition is repeated word by word.
-- :name failed_documents
SELECT u.uri, r.id AS run_id FROM workflowrun r JOIN documenturi u ON u.doc_hash = r.doc_id
 WHERE (r.failed_steps > 0 OR r.cancel_requested_at IS NOT NULL) AND r.status IN ('FAILED', 'CANCELLED')
   AND u.source = :source AND substr(u.uri, 1, length(CAST(:beginning AS text))) = CAST(:beginning AS text)
   AND NOT EXISTS (SELECT 1 FROM workflowrun n WHERE n.doc_id = r.doc_id AND n.id > r.id)
 ORDER BY r.id DESC LIMIT :most;

-- What a store step says of a document without text; its output holds no words of the document.
-- :name reasons_to_wait
SELECT s.workflow_step_name AS stage, s.status_message AS reason, count(*) AS steps
  FROM workflowrun r JOIN runstep s ON s.workflow_run_id = r.id
 WHERE r.run_group_id = :group_id AND s.status IN ('PENDING', 'ERROR') AND s.status_message IS NOT NULL
 GROUP BY s.workflow_step_name, s.status_message
 ORDER BY count(*) DESC, s.workflow_step_name, s.status_message LIMIT :most;

-- :name runs_with_nothing_to_index
SELECT r.id FROM workflowrun r JOIN runstep s ON s.workflow_run_id = r.id
 WHERE r.run_group_id = :group_id AND s.step_type = 'store' AND s.status = 'COMPLETED'
   AND replace(CAST(s.output AS text), ' ', '') LIKE '%"nothing_to_index":true%'
 ORDER BY r.id LIMIT :most;

-- :name sources
SELECT u.source, count(*) AS uris FROM documenturi u WHERE {is_a_place} GROUP BY u.source ORDER BY u.source;

-- What is shown of a document in a list. A title is what the document or its uploader says of itself.
-- :fragment shown_document
u.id, u.uri, u.source, u.batch_id, u.version, u.doc_hash, d.mime_type, d.file_size, d.doc_meta ->> 'title' AS title,
(SELECT h.process_date FROM documenturihistory h WHERE h.doc_uri_id = u.id ORDER BY h.version DESC, h.id DESC LIMIT 1)
AS changed_at,
(SELECT max(r.id) FROM workflowrun r WHERE r.doc_id = u.doc_hash) AS run_id

-- :fragment says_it
(lower(u.uri) LIKE lower(CAST(:first AS text)) ESCAPE '\' OR lower(u.uri) LIKE lower(CAST(:second AS text)) ESCAPE '\'
 OR lower(u.uri) LIKE lower(CAST(:third AS text)) ESCAPE '\')

-- Documents in the order of an index, from one place to another: a page costs what lies between the two, however many
-- there are.
-- :name end_of_stretch
SELECT u.source, u.uri FROM documenturi u
 WHERE (u.source, u.uri) > (CAST(:source AS text), CAST(:uri AS text)) ORDER BY u.source, u.uri LIMIT 1 OFFSET :steps;

-- :name documents_in_stretch
SELECT {shown_document} FROM documenturi u JOIN document d ON d.hash = u.doc_hash
 WHERE (u.source, u.uri) > (CAST(:source AS text), CAST(:uri AS text))
   AND (CAST(:last_source AS text) IS NULL
        OR (u.source, u.uri) <= (CAST(:last_source AS text), CAST(:last_uri AS text)))
   AND (CAST(:only AS text) IS NULL OR u.source = CAST(:only AS text))
   AND {is_a_place} AND {says_it}
 ORDER BY u.source, u.uri LIMIT :most;

-- :name end_of_stretch_of_batch
SELECT u.id FROM documenturi u WHERE u.batch_id = :batch_id AND u.id > :id ORDER BY u.id LIMIT 1 OFFSET :steps;

-- :name documents_in_stretch_of_batch
SELECT {shown_document} FROM documenturi u JOIN document d ON d.hash = u.doc_hash
 WHERE u.batch_id = :batch_id AND u.id > :id AND (CAST(:last_id AS bigint) IS NULL OR u.id <= :last_id) AND {says_it}
 ORDER BY u.id LIMIT :most;

-- :name statuses_of_runs
SELECT id, status FROM workflowrun WHERE id {among ids};
