-- :name executed_steps
SELECT workflow_run_id, step_type, start_date, completed_date, CAST(output AS text) AS output FROM runstep
 WHERE workflow_run_id = ANY(:ids) AND parent_step_id IS NULL AND status = 'COMPLETED' AND start_date IS NOT NULL;
