-- :name find_uri
SELECT id, doc_hash, version, batch_id FROM documenturi WHERE uri = :uri AND source = :source;

-- The first row of a version tells how it came about; later ones what steps did with it.
-- :name versions_of_uri
SELECT h.version, h.hash, h.action, h.process_date, h.batch_id, CAST(h.histmeta AS text) AS histmeta,
       d.mime_type, d.file_size, d.hash IS NOT NULL AS is_known
  FROM documenturihistory h LEFT JOIN document d ON d.hash = h.hash
 WHERE h.id IN (SELECT min(f.id) FROM documenturihistory f WHERE f.doc_uri_id = :uri_id
                 GROUP BY f.version ORDER BY f.version DESC LIMIT :limit OFFSET :offset)
 ORDER BY h.version DESC;

-- :name count_versions_of_uri
SELECT count(DISTINCT version) AS versions FROM documenturihistory WHERE doc_uri_id = :uri_id;

-- :name version_of_uri
SELECT h.version, h.hash, h.action, h.process_date, h.batch_id, CAST(h.histmeta AS text) AS histmeta,
       d.mime_type, d.file_size, d.hash IS NOT NULL AS is_known
  FROM documenturihistory h LEFT JOIN document d ON d.hash = h.hash
 WHERE h.doc_uri_id = :uri_id AND h.version = :version
 ORDER BY h.id LIMIT 1;

-- :name version_before
SELECT max(version) AS version FROM documenturihistory WHERE doc_uri_id = :uri_id AND version < :version;

-- Which configurations made something of documents, those of the newest runs first.
-- :name step_configs_of_documents
SELECT r.doc_id, s.step_config_id, s.step_type
  FROM workflowrun r JOIN runstep s ON s.workflow_run_id = r.id
 WHERE r.doc_id {among hashes} AND s.status = 'COMPLETED' AND s.parent_step_id IS NULL
 GROUP BY r.doc_id, s.step_config_id, s.step_type
 ORDER BY max(r.id) DESC, s.step_config_id;

-- :name step_configs
SELECT id, step_type FROM stepconfig ORDER BY id DESC;

-- Which workflow and parameter set processed each document. Runs that completed count before others, newer ones before
-- older ones.
-- :name processings_of_documents
SELECT r.doc_id, g.workflow_definition_id, g.param_definition_id,
       max(CASE WHEN r.status = 'COMPLETED' THEN r.id ELSE 0 END) AS newest_completed, max(r.id) AS newest
  FROM workflowrun r JOIN rungroup g ON g.id = r.run_group_id
 WHERE r.doc_id {among hashes}
 GROUP BY r.doc_id, g.workflow_definition_id, g.param_definition_id;
