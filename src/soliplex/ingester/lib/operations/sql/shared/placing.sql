-- Where documents live, the place that came last first.
-- :name places_of_contents
SELECT doc_hash, uri, source, batch_id FROM documenturi
 WHERE doc_hash {among hashes} ORDER BY id DESC;

-- Contents that the places of these documents have or had.
-- :name contents_at_places
SELECT DISTINCT h.hash FROM documenturi u JOIN documenturihistory h ON h.doc_uri_id = u.id
 WHERE u.doc_hash {among hashes};

-- :name known_documents
SELECT hash FROM document WHERE hash {among hashes};

-- RAG databases that runs of these documents were to write to.
-- :name databases_of_runs
SELECT DISTINCT r.doc_id, s.resource_key FROM workflowrun r JOIN runstep s ON s.workflow_run_id = r.id
 WHERE r.doc_id {among hashes} AND s.resource_key LIKE 'rag:%';
