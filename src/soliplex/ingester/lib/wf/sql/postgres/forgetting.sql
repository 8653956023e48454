-- Runs are held in the order of ids, as everywhere.
-- :name lock_runs_of_documents
SELECT id, run_group_id, status FROM workflowrun WHERE doc_id = ANY(:doc_ids) ORDER BY id FOR UPDATE;

-- The rest are as the portable ones, with an array for the ids.

-- :name resources_of_runs
SELECT DISTINCT r.doc_id, s.resource_key FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id
 WHERE s.workflow_run_id = ANY(:ids) AND s.resource_key IS NOT NULL;

-- :name delete_edges_of_runs
DELETE FROM runstepdependency
 WHERE depends_on_id IN (SELECT id FROM runstep WHERE workflow_run_id = ANY(:ids));

-- :name delete_tasks_of_runs
DELETE FROM runstep WHERE workflow_run_id = ANY(:ids) AND parent_step_id IS NOT NULL RETURNING id;

-- :name delete_steps_of_runs
DELETE FROM runstep WHERE workflow_run_id = ANY(:ids) RETURNING id;

-- :name delete_events_of_runs
DELETE FROM lifecyclehistory WHERE workflow_run_id = ANY(:ids) RETURNING id;

-- :name delete_runs
DELETE FROM workflowrun WHERE id = ANY(:ids);
