-- :name documents_by_hash
SELECT hash, mime_type, file_size, CAST(doc_meta AS text) AS doc_meta FROM document
 WHERE hash {among hashes};

-- Where documents live, the place they were put last first.
-- :name places_of_documents
SELECT id, doc_hash, uri, source, version, batch_id FROM documenturi
 WHERE doc_hash {among hashes} ORDER BY id DESC;

-- :name configs_of_runs
SELECT s.workflow_run_id, s.workflow_step_number, s.workflow_step_name, s.step_type, s.step_config_id,
       CAST(c.config_json AS text) AS config_json, (s.status_meta ->> 'skipped') IS NOT NULL AS is_skipped
  FROM runstep s JOIN stepconfig c ON c.id = s.step_config_id
 WHERE s.workflow_run_id {among ids} AND s.parent_step_id IS NULL
 ORDER BY s.workflow_run_id, s.workflow_step_number;

-- :name step_is_held
SELECT 1 FROM runstep WHERE id = :id AND lease_token = :lease;

-- What the steps of these types gave.
-- :name outputs_of_runs
SELECT workflow_run_id, workflow_step_name, CAST(output AS text) AS output FROM runstep
 WHERE workflow_run_id {among ids} AND parent_step_id IS NULL AND status = 'COMPLETED'
   AND step_type {among types}
 ORDER BY workflow_run_id, workflow_step_number;

-- :name set_document_facts
UPDATE document SET mime_type = :mime_type, doc_meta = {json meta} WHERE hash = :hash;
