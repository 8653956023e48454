-- SQLite has one writer at a time: no row needs a lock.
-- :name flag_runs_of_group
UPDATE workflowrun SET cancel_requested_at = coalesce(cancel_requested_at, :now)
 WHERE run_group_id = :group_id AND status IN ('PENDING', 'RUNNING')
RETURNING id;
