-- :name resources_of_runs
SELECT DISTINCT r.doc_id, s.resource_key FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id
 WHERE s.workflow_run_id {among ids} AND s.resource_key IS NOT NULL;
