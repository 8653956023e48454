-- SQLite has one writer at a time: no row needs a lock.
-- :name flag_runs_of_group
UPDATE workflowrun SET cancel_requested_at = coalesce(cancel_requested_at, :now)
 WHERE run_group_id = :group_id AND status IN ('PENDING', 'RUNNING')
RETURNING id;

-- SQLite has one writer at a time: to read is to hold.
-- :name lock_runs_of_group
SELECT id, parent_step_id, completed_date FROM workflowrun WHERE run_group_id = :group_id;
