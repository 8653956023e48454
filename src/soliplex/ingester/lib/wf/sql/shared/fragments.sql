-- :fragment waiting
status IN ('PENDING', 'ERROR')

-- A step that can be claimed now. The words are those of the partial indexes: SQLite uses such an index only when a
-- query repeats its condition term by term.
-- :fragment ready
status IN ('PENDING', 'ERROR') AND remaining_deps = 0 AND remaining_tasks = 0 AND available_at IS NULL
    AND resource_key IS NULL

-- As `ready`, of a step that needs a resource.
-- :fragment ready_keyed
status IN ('PENDING', 'ERROR') AND remaining_deps = 0 AND remaining_tasks = 0 AND available_at IS NULL
    AND resource_key IS NOT NULL

-- The types that have a ready step, and those that have one that needs a resource: one probe of an index for each type,
-- however many steps are ready.
-- :fragment types_of_ready
plain (step_type) AS (
    SELECT min(step_type) FROM runstep WHERE {ready}
    UNION ALL
    SELECT (SELECT min(step_type) FROM runstep WHERE {ready} AND step_type > plain.step_type)
      FROM plain WHERE plain.step_type IS NOT NULL
), keyed (step_type) AS (
    SELECT min(step_type) FROM runstep WHERE {ready_keyed}
    UNION ALL
    SELECT (SELECT min(step_type) FROM runstep WHERE {ready_keyed} AND step_type > keyed.step_type)
      FROM keyed WHERE keyed.step_type IS NOT NULL
)

-- A lock that nobody else can take over (see acquire_lock).
-- :fragment live
(l.expires_at > :now OR l.holder_kind = 'worker')

-- Somebody else came earlier to the queue of a key, and still waits.
-- :fragment others_wait
EXISTS (SELECT 1 FROM resourcewaiter w
         WHERE w.resource_key = walk.resource_key AND w.expires_at > :now AND w.holder_id <> :waiter
           AND NOT EXISTS (SELECT 1 FROM resourcewaiter own
                            WHERE own.resource_key = w.resource_key AND own.holder_id = :waiter AND own.id < w.id
                              AND own.expires_at > :now))

-- :fragment group_status
(SELECT g.status FROM rungroup g WHERE g.id = run_group_id) AS group_status

-- A step that ends while it waits for a signal begins anew when it is retried; one that ends otherwise goes on where it
-- was.
-- :fragment wait_given_up
state = CASE WHEN awaits IS NULL THEN state END, awaits = NULL
