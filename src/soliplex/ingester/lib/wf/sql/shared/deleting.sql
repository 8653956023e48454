-- :name delete_edges_of_runs
DELETE FROM runstepdependency
 WHERE depends_on_id IN (SELECT id FROM runstep WHERE workflow_run_id {among ids});

-- :name delete_tasks_of_runs
DELETE FROM runstep
 WHERE workflow_run_id {among ids} AND parent_step_id IS NOT NULL
RETURNING id;

-- :name delete_steps_of_runs
DELETE FROM runstep WHERE workflow_run_id {among ids} RETURNING id;

-- :name delete_events_of_runs
DELETE FROM lifecyclehistory WHERE workflow_run_id {among ids} RETURNING id;

-- :name delete_runs
DELETE FROM workflowrun WHERE id {among ids};

-- :name shrink_group
UPDATE rungroup
   SET total_runs = total_runs - :total, remaining_runs = remaining_runs - :remaining,
       failed_runs = failed_runs - :failed, cancelled_runs = cancelled_runs - :cancelled
 WHERE id = :group_id
RETURNING total_runs AS total, remaining_runs AS remaining, failed_runs AS failed, cancelled_runs AS cancelled;
