-- The newest runs of a flow that have ended. Older ones than the newest :within of all runs are not looked for: no index
-- holds runs by their flow, and what is that old says little.
-- :name ended_runs_of_flow
SELECT id, status, definition_id, start_date, completed_date FROM workflowrun
 WHERE id > (SELECT coalesce(max(id), 0) - :within FROM workflowrun)
   AND workflow_definition_id = :slug AND completed_date IS NOT NULL AND start_date IS NOT NULL
   AND status IN ('COMPLETED', 'FAILED')
 ORDER BY id DESC LIMIT :limit;

-- :name steps_of_ended_runs
SELECT id, workflow_run_id, workflow_step_name, parent_step_id, item_index, status, retry, repeats, remaining_tasks,
       start_date, completed_date, status_meta ->> 'skipped' AS skipped_by
  FROM runstep WHERE workflow_run_id {among ids}
 ORDER BY workflow_run_id DESC, id LIMIT :limit;

-- :name attempts_of_steps
SELECT step_id, attempt, start_date, end_date, error_type FROM stepattempt WHERE step_id {among ids} ORDER BY step_id, id;

-- :name open_optimization
SELECT id FROM flowoptimization WHERE slug = :slug AND settled_at IS NULL;

-- :name slugs_with_open_optimizations
SELECT slug FROM flowoptimization WHERE settled_at IS NULL ORDER BY slug LIMIT :limit;

-- :name settle_optimization
UPDATE flowoptimization
   SET standing = :standing, verdict = :verdict, settled_at = {moment settled_at}, measured_before = :measured_before, measured_after = :measured_after, runs_before = :runs_before,
       runs_after = :runs_after, failed_before = :failed_before, failed_after = :failed_after
 WHERE id = :id AND settled_at IS NULL
RETURNING id;

-- How often changes of each kind were kept, and taken back, in all flows.
-- :name settled_optimizations
SELECT slug, standing, CAST(changes AS text) AS changes FROM flowoptimization
 WHERE standing IN ('kept', 'taken_back') ORDER BY id DESC LIMIT 1000;

-- :name save_pattern
INSERT INTO flowpattern (slug, step, kind, current, proposed, samples, confidence, predicted_seconds, seen_at)
VALUES (:slug, :step, :kind, {json current}, {json proposed}, :samples, :confidence, :predicted_seconds, {moment now})
ON CONFLICT (slug, step, kind) DO UPDATE
   SET current = excluded.current, proposed = excluded.proposed, samples = excluded.samples,
       confidence = excluded.confidence, predicted_seconds = excluded.predicted_seconds, seen_at = excluded.seen_at;

-- :name known_decomposition
UPDATE knowndecomposition SET uses = uses + 1, used_at = :now WHERE goal_hash = :goal_hash
RETURNING CAST(tasks AS text) AS tasks;

-- :name keep_decomposition
INSERT INTO knowndecomposition (goal_hash, tasks, uses, created_at, used_at)
VALUES (:goal_hash, {json tasks}, 0, {moment now}, {moment now})
ON CONFLICT (goal_hash) DO NOTHING;

-- :name forget_decompositions
DELETE FROM knowndecomposition WHERE goal_hash IN
  (SELECT goal_hash FROM knowndecomposition ORDER BY used_at DESC LIMIT 1000 OFFSET :most);
