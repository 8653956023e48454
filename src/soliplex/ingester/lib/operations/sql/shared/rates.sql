-- The newest groups that were processed like this; NULL stands for any.
-- :name newest_groups
SELECT id FROM rungroup
 WHERE (CAST(:workflow_id AS text) IS NULL OR workflow_definition_id = :workflow_id)
   AND (CAST(:param_id AS text) IS NULL OR param_definition_id = :param_id) AND total_runs > remaining_runs
 ORDER BY id DESC LIMIT :most;

-- The documents that a group completed last.
-- :name completed_documents
SELECT r.id, d.mime_type, d.file_size FROM workflowrun r JOIN document d ON d.hash = r.doc_id
 WHERE r.run_group_id = :group_id AND r.status = 'COMPLETED' ORDER BY r.id DESC LIMIT :most;

-- :name executed_steps
SELECT workflow_run_id, step_type, start_date, completed_date, CAST(output AS text) AS output FROM runstep
 WHERE workflow_run_id {among ids} AND parent_step_id IS NULL AND status = 'COMPLETED'
   AND start_date IS NOT NULL AND (status_meta ->> 'skipped') IS NULL;
