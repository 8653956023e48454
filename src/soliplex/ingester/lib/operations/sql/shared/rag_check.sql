-- What runs have stored in a RAG database, of documents that live at a URI: the newest last, each with the workflow and
-- the parameter set that stored it.
-- :name stored_under_key
SELECT r.id, r.doc_id, CAST(s.output AS text) AS output, g.workflow_definition_id, g.param_definition_id
  FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id JOIN rungroup g ON g.id = r.run_group_id
 WHERE s.step_type = 'store' AND s.resource_key = :key AND s.parent_step_id IS NULL AND s.status = 'COMPLETED'
   AND EXISTS (SELECT 1 FROM documenturi u WHERE u.doc_hash = r.doc_id AND {is_a_place})
 ORDER BY r.id;

-- Documents that are on their way into a RAG database.
-- :name being_stored_under_key
SELECT DISTINCT r.doc_id FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id
 WHERE s.step_type = 'store' AND s.resource_key = :key AND s.status IN ('PENDING', 'RUNNING', 'ERROR');

-- :name living_documents
SELECT DISTINCT doc_hash FROM documenturi WHERE doc_hash {among hashes};
