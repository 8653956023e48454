-- Places of contents are the URIs that users gave them. A segmentation job keeps its document in use by a URI of its own,
-- which nobody can open: it is no place, and searches do not cite it.
-- :fragment is_a_place
NOT (u.source = 'segmenter' AND u.uri LIKE 'segmenter:%/%')

-- Where documents live, the place that came last first.
-- :name places_of_contents
SELECT u.doc_hash, u.uri, u.source, u.batch_id FROM documenturi u
 WHERE u.doc_hash {among hashes} AND {is_a_place} ORDER BY u.id DESC;

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
