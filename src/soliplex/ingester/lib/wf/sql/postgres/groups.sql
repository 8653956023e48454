-- Runs are held in the order of ids, as everywhere: two who hold the same runs cannot wait for one another.
-- :name flag_runs_of_group
WITH held AS MATERIALIZED (
    SELECT id AS held_id FROM workflowrun WHERE run_group_id = :group_id AND status IN ('PENDING', 'RUNNING')
     ORDER BY id FOR NO KEY UPDATE
)
UPDATE workflowrun SET cancel_requested_at = coalesce(cancel_requested_at, :now)
  FROM held WHERE id = held_id AND status IN ('PENDING', 'RUNNING')
RETURNING id;
