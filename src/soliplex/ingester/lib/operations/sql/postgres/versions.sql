-- :name step_configs_of_documents
SELECT r.doc_id, s.step_config_id, s.step_type
  FROM workflowrun r JOIN runstep s ON s.workflow_run_id = r.id
 WHERE r.doc_id = ANY(:hashes) AND s.status = 'COMPLETED' AND s.parent_step_id IS NULL
 GROUP BY r.doc_id, s.step_config_id, s.step_type
 ORDER BY max(r.id) DESC, s.step_config_id;

-- :name processings_of_documents
SELECT r.doc_id, g.workflow_definition_id, g.param_definition_id,
       max(CASE WHEN r.status = 'COMPLETED' THEN r.id ELSE 0 END) AS newest_completed, max(r.id) AS newest
  FROM workflowrun r JOIN rungroup g ON g.id = r.run_group_id
 WHERE r.doc_id = ANY(:hashes)
 GROUP BY r.doc_id, g.workflow_definition_id, g.param_definition_id;
