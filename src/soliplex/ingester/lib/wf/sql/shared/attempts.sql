-- Attempts that failed. Their rows are written by the transaction that records the failure, and deleted with their
-- step.

-- :name delete_attempts_of_runs
DELETE FROM stepattempt WHERE step_id IN (SELECT id FROM runstep WHERE workflow_run_id {among ids});

-- :name delete_attempts_of_steps
DELETE FROM stepattempt WHERE step_id {among ids};
