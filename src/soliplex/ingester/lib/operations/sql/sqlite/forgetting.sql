-- SQLite has one writer at a time: to read is to hold.
-- :name lock_runs_of_documents
SELECT id, run_group_id, status FROM workflowrun WHERE doc_id IN (SELECT value FROM json_each(:doc_ids)) ORDER BY id;
