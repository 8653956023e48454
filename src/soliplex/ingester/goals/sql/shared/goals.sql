-- :name run_that_step_started
-- The run's key is that of the signal by which its end is told: the step, and how often it had been called again before.
SELECT run.id FROM runstep AS step
  JOIN workflowrun AS run ON run.workflow_definition_id = :slug
   AND run.run_key = ':subflow:' || CAST(step.id AS text) || ':' || CAST(step.repeats - 1 AS text)
 WHERE step.id = :step_id;

-- :name goals
-- The newest first. Every goal has a key, so the index of runs that have one finds them.
SELECT id, status, status_message, CAST(input AS text) AS input, created_date, start_date, completed_date FROM workflowrun
 WHERE workflow_definition_id = 'goal' AND run_key IS NOT NULL
 ORDER BY id DESC LIMIT :limit OFFSET :offset;

-- :name count_goals
SELECT count(*) AS goals FROM workflowrun WHERE workflow_definition_id = 'goal' AND run_key IS NOT NULL;
