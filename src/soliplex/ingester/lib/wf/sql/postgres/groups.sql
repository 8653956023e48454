-- Runs are held in the order of ids, as everywhere.
-- :name flag_runs_of_group
WITH held AS MATERIALIZED (
    SELECT id AS held_id FROM workflowrun WHERE run_group_id = :group_id AND status IN ('PENDING', 'RUNNING')
     ORDER BY id FOR NO KEY UPDATE
)
UPDATE workflowrun SET cancel_requested_at = coalesce(cancel_requested_at, :now)
  FROM held WHERE id = held_id AND status IN ('PENDING', 'RUNNING')
RETURNING id;

-- Locked in the order of ids, as everywhere.
-- :name lock_runs_of_group
SELECT id, parent_step_id, completed_date FROM workflowrun WHERE run_group_id = :group_id ORDER BY id FOR NO KEY UPDATE;
