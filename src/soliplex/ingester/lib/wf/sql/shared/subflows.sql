-- Runs that a step of another run has started and waits for. The key of such a run is the key of the signal that its end
-- sends to that step.

-- Runs whose step does not wait for them: it was cancelled, retried or deleted, or its time has run out.
-- :name orphaned_runs
SELECT r.id FROM workflowrun r LEFT JOIN runstep s ON s.id = r.parent_step_id AND s.awaits = r.run_key
 WHERE r.parent_step_id IS NOT NULL AND r.completed_date IS NULL AND r.cancel_requested_at IS NULL AND s.id IS NULL
 LIMIT :limit;

-- The step that started the run waits for its end.
-- :fragment its_step_waits
EXISTS (SELECT 1 FROM runstep s WHERE s.id = r.parent_step_id AND s.awaits = r.run_key)

-- Of these runs, those that a step has started, which waits for them no more: it was told how they ended, has ended
-- itself, or is gone.
-- :name runs_not_waited_for
SELECT r.id, r.workflow_definition_id, s.workflow_step_name, s.workflow_run_id AS parent_run_id
  FROM workflowrun r LEFT JOIN runstep s ON s.id = r.parent_step_id
 WHERE r.id {among ids} AND r.parent_step_id IS NOT NULL AND (r.completed_date IS NOT NULL OR NOT {its_step_waits})
 ORDER BY r.id;

-- The key becomes free for another run, and this one an orphan.
-- :name give_up_key
UPDATE workflowrun SET run_key = run_key || ':' || CAST(id AS text) WHERE id = :run_id;
