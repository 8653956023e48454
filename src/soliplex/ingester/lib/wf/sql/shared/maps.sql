-- :name output_of_step
SELECT CAST(output AS text) AS output FROM runstep
 WHERE workflow_run_id = :run_id AND workflow_step_name = :name AND parent_step_id IS NULL;

-- :name parents_by_id
SELECT id, remaining_tasks, workflow_run_id, max_failures, failed_tasks FROM runstep
 WHERE id {among ids} AND status = 'RUNNING';

-- :name count_tasks
SELECT parent_step_id, count(*) FILTER (WHERE status = 'FAILED') AS failed,
       count(*) FILTER (WHERE status = 'CANCELLED') AS cancelled,
       max(status_message) FILTER (WHERE status = 'FAILED') AS message
  FROM runstep WHERE parent_step_id {among ids} GROUP BY parent_step_id;

-- :name release_parents
UPDATE runstep SET status = 'PENDING', status_date = :now, remaining_tasks = 0
 WHERE id {among ids} AND status = 'RUNNING';

-- :name cancel_parents
UPDATE runstep SET status = 'CANCELLED', completed_date = :now, status_date = :now
 WHERE id {among ids} AND status = 'PENDING'
RETURNING id, workflow_run_id, parent_step_id, optional, workflow_step_name;

-- :name outputs_of_dependencies
SELECT e.step_id, d.workflow_step_name, CAST(d.output AS text) AS output
  FROM runstepdependency e JOIN runstep d ON d.id = e.depends_on_id
 WHERE e.step_id {among ids};

-- The outputs of the completed steps of these names in these runs.
-- :name outputs_by_name
SELECT workflow_run_id, workflow_step_name, CAST(output AS text) AS output FROM runstep
 WHERE workflow_run_id {among run_ids} AND parent_step_id IS NULL AND status = 'COMPLETED'
   AND workflow_step_name {among names}
 ORDER BY workflow_run_id, workflow_step_number;
