-- What is ready, in one look: the types that have a ready step, with the head of each one's queue; the types of ready
-- steps that need a resource; when the next step becomes due. One probe of an index per type, however many steps are
-- ready.
-- :name look_for_work
WITH RECURSIVE {types_of_ready}
SELECT 'due' AS kind, CAST(NULL AS text) AS step_type, CAST(NULL AS integer) AS priority, CAST(NULL AS bigint) AS queue_key,
       min(available_at) AS due
  FROM runstep WHERE available_at IS NOT NULL
UNION ALL
SELECT 'plain', plain.step_type,
       (SELECT priority FROM runstep WHERE {ready} AND step_type = plain.step_type
         ORDER BY priority DESC, queue_key, id LIMIT 1),
       (SELECT queue_key FROM runstep WHERE {ready} AND step_type = plain.step_type
         ORDER BY priority DESC, queue_key, id LIMIT 1),
       NULL
  FROM plain WHERE plain.step_type IS NOT NULL
UNION ALL
SELECT 'keyed', step_type, NULL, NULL, NULL FROM keyed WHERE step_type IS NOT NULL;

-- The first key after :after that has ready steps of the type, no live lock, and nobody who has waited for it longer. A
-- few probes per key that is passed over.
-- :name next_free_key
WITH RECURSIVE walk (resource_key) AS (
    SELECT min(resource_key) FROM runstep WHERE {ready_keyed} AND step_type = :step_type AND resource_key > :after
    UNION ALL
    SELECT (SELECT min(s.resource_key) FROM runstep s
             WHERE s.status IN ('PENDING', 'ERROR') AND s.remaining_deps = 0 AND s.remaining_tasks = 0
               AND s.available_at IS NULL AND s.resource_key IS NOT NULL
               AND s.step_type = :step_type AND s.resource_key > walk.resource_key)
      FROM walk
     WHERE EXISTS (SELECT 1 FROM resourcelock l WHERE l.resource_key = walk.resource_key AND {live}) OR {others_wait}
)
SELECT resource_key FROM walk
 WHERE resource_key IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM resourcelock l WHERE l.resource_key = walk.resource_key AND {live})
   AND NOT {others_wait};

-- :name runs_by_id
SELECT id, workflow_definition_id, run_group_id, status, status_date, completed_date, cancel_requested_at,
       coalesce(cancel_requested_at >= deadline, false) AS is_overdue
  FROM workflowrun WHERE id {among ids};

-- :name claimed_runs
SELECT {claimed_run_columns} FROM workflowrun WHERE id {among ids};
