-- :name run_in_group
SELECT id FROM workflowrun
 WHERE doc_id = :hash AND run_group_id = :group_id AND workflow_definition_id = :workflow_id ORDER BY id LIMIT 1;
