-- What operators and the web interface ask of the queue. Whatever the number of steps, these look at no more than :most
-- of a kind, in the order of an index.

-- How many steps of each type are ready, up to :most that need no resource and as many that need one; and the step
-- among them that was created first, since ids only grow.
-- :name queue_depths
WITH RECURSIVE {types_of_ready}
SELECT plain.step_type,
       (SELECT count(*) FROM (SELECT id FROM runstep WHERE {ready} AND step_type = plain.step_type
                               ORDER BY priority DESC, queue_key, id LIMIT :most) AS counted) AS steps,
       (SELECT min(id) FROM (SELECT id FROM runstep WHERE {ready} AND step_type = plain.step_type
                              ORDER BY priority DESC, queue_key, id LIMIT :most) AS counted) AS oldest_id
  FROM plain WHERE plain.step_type IS NOT NULL
UNION ALL
SELECT keyed.step_type,
       (SELECT count(*) FROM (SELECT id FROM runstep WHERE {ready_keyed} AND step_type = keyed.step_type
                               ORDER BY resource_key, priority DESC, queue_key, id LIMIT :most) AS counted),
       (SELECT min(id) FROM (SELECT id FROM runstep WHERE {ready_keyed} AND step_type = keyed.step_type
                              ORDER BY resource_key, priority DESC, queue_key, id LIMIT :most) AS counted)
  FROM keyed WHERE keyed.step_type IS NOT NULL;

-- Steps by id, with the moments of which the last one made them ready: their creation, their last change, and the end of
-- the last step that they waited for.
-- :name moments_of_steps
SELECT s.id, s.step_type, s.workflow_run_id, s.created_date, s.status_date,
       (SELECT max(d.completed_date) FROM runstepdependency e JOIN runstep d ON d.id = e.depends_on_id
         WHERE e.step_id = s.id) AS freed_at
  FROM runstep s WHERE s.id {among ids};

-- :name running_steps_by_type
SELECT step_type, count(*) AS steps FROM runstep WHERE status = 'RUNNING' AND lease_token IS NOT NULL GROUP BY step_type;

-- Why a step waits that neither runs, nor waits for other steps, nor can be claimed.
-- :fragment wait_reason
CASE WHEN awaits LIKE ':subflow:%' THEN 'subflow'
     WHEN awaits LIKE ':queue:%' THEN 'queue'
     WHEN awaits IS NOT NULL THEN 'signal'
     WHEN status = 'ERROR' THEN 'retry'
     WHEN status_message IS NOT NULL AND status_meta -> 'search_for_a_worker' IS NOT NULL THEN 'worker'
     ELSE 'time' END

-- Of the steps whose wait ends first, how many wait for what.
-- :name count_waiting_steps
SELECT reason, count(*) AS steps, min(available_at) AS next_at
  FROM (SELECT {wait_reason} AS reason, available_at FROM runstep WHERE available_at IS NOT NULL
         ORDER BY available_at LIMIT :most) AS looked_at
 GROUP BY reason;

-- The steps that `count_waiting_steps` counts, one by one.
-- :name waiting_steps
SELECT w.*, r.run_group_id, r.workflow_definition_id
  FROM (SELECT id, workflow_run_id, workflow_step_name, step_type, item_index, available_at, awaits, status_message,
               {wait_reason} AS reason
          FROM runstep WHERE available_at IS NOT NULL ORDER BY available_at LIMIT :most) AS w
       JOIN workflowrun r ON r.id = w.workflow_run_id
 WHERE CAST(:reason AS text) IS NULL OR w.reason = :reason
 ORDER BY w.available_at, w.id LIMIT :limit;

-- Locks that others hold, with the number of ready steps of each type that wait for them.
-- :name steps_waiting_for_locks
WITH RECURSIVE keyed (step_type) AS (
    SELECT min(step_type) FROM runstep WHERE {ready_keyed}
    UNION ALL
    SELECT (SELECT min(step_type) FROM runstep WHERE {ready_keyed} AND step_type > keyed.step_type)
      FROM keyed WHERE keyed.step_type IS NOT NULL
), held AS (
    SELECT l.resource_key, l.holder_kind, l.holder_id, l.acquired_at, l.expires_at FROM resourcelock l
     WHERE {live} ORDER BY l.resource_key LIMIT :locks
)
SELECT held.resource_key, held.holder_kind, held.holder_id, held.acquired_at, held.expires_at, keyed.step_type,
       (SELECT count(*) FROM (SELECT id FROM runstep
                               WHERE {ready_keyed} AND step_type = keyed.step_type AND resource_key = held.resource_key
                               ORDER BY priority DESC, queue_key, id LIMIT :most) AS counted) AS steps
  FROM held CROSS JOIN keyed WHERE keyed.step_type IS NOT NULL;

-- Signals that no step has taken.
-- :name count_signals
SELECT count(*) AS signals FROM (SELECT id FROM signal ORDER BY key, id LIMIT :most) AS counted;

-- The steps of a run without the tasks of its map steps. Of a map step, the last item tells how many tasks it has.
-- :name nodes_of_run
SELECT id, workflow_step_number, workflow_step_name, step_type, status, status_message, start_date, completed_date,
       retry, retries, repeats, optional, worker_id, resource_key, awaits, available_at, remaining_deps, remaining_tasks,
       failed_tasks, CAST(progress AS text) AS progress, status_meta ->> 'skipped' AS skipped_by, {wait_reason} AS reason,
       (SELECT max(t.item_index) FROM runstep t WHERE t.parent_step_id = runstep.id) AS last_item,
       EXISTS (SELECT 1 FROM resourcelock l WHERE l.resource_key = runstep.resource_key AND {live}) AS is_locked
  FROM runstep WHERE workflow_run_id = :run_id AND parent_step_id IS NULL
 ORDER BY workflow_step_number, id;

-- :name edges_of_steps
SELECT depends_on_id, step_id FROM runstepdependency WHERE step_id {among ids};

-- :name subflows_of_steps
SELECT parent_step_id, id FROM workflowrun
 WHERE parent_step_id IS NOT NULL AND completed_date IS NULL AND parent_step_id {among ids};

-- :name count_tasks_by_status
SELECT parent_step_id, status, count(*) AS tasks FROM runstep WHERE parent_step_id {among ids}
 GROUP BY parent_step_id, status;

-- :name runs_to_trace
SELECT r.id, r.workflow_definition_id, r.run_group_id, r.batch_id, r.doc_id, r.status, r.status_message,
       r.created_date, r.start_date, r.completed_date, p.id AS parent_run_id, p.created_date AS parent_created_date
  FROM workflowrun r
  LEFT JOIN runstep s ON s.id = r.parent_step_id
  LEFT JOIN workflowrun p ON p.id = s.workflow_run_id
 WHERE r.id {among ids};
