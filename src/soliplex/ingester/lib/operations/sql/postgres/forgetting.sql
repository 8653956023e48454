-- Runs are held in the order of ids, as everywhere.
-- :name lock_runs_of_documents
SELECT id, run_group_id, status FROM workflowrun WHERE doc_id = ANY(:doc_ids) ORDER BY id FOR UPDATE;
