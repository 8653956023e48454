-- SKIP LOCKED: a step being claimed elsewhere is passed over, not waited for. MATERIALIZED: a subquery in the UPDATE
-- could be run again and claim more than the limit.
-- :name claim_ready
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM runstep WHERE {ready} AND step_type = :step_type
     ORDER BY priority DESC, queue_key, id LIMIT :limit
       FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE runstep
   SET status = 'RUNNING', worker_id = :worker_id, lease_token = :lease, start_date = :now, status_date = :now,
       status_message = NULL
  FROM picked WHERE id = picked_id
RETURNING {claimed_columns};

-- A whole claim in one statement, since each statement costs a round trip to the server: take the steps, start the runs
-- that have not begun and then their groups, write the events. Each part locks the rows that it changes as `start_runs`
-- and `start_groups` do. Two kinds of steps are left as they are ("busy"): those whose run another transaction holds,
-- and those whose workflow has a version that this worker has not read yet, since it cannot say who listens to the
-- events of that version. ARRAY: the planner then expects few runs, and goes by the primary key. IS TRUE: PostgreSQL
-- then looks the ids up in a hash. It takes the steps for one row, and a join of them with the runs would compare each
-- step with each run.
-- :name claim_and_start
WITH picked AS MATERIALIZED (
    SELECT picked_id, picked_run
      FROM unnest(CAST(:types AS text[])) AS kind CROSS JOIN LATERAL (
               SELECT id AS picked_id, workflow_run_id AS picked_run FROM runstep WHERE {ready} AND step_type = kind
                ORDER BY priority DESC, queue_key, id LIMIT :limit
                  FOR NO KEY UPDATE SKIP LOCKED
           ) AS head
     LIMIT :limit
), waiting AS MATERIALIZED (
    SELECT id AS waiting_id FROM workflowrun
     WHERE id = ANY(ARRAY(SELECT picked_run FROM picked)) AND status = 'PENDING'
       AND coalesce(definition_id, 0) <= :known_definitions FOR NO KEY UPDATE SKIP LOCKED
), begun AS (
    UPDATE workflowrun SET status = 'RUNNING', start_date = coalesce(start_date, :now), status_date = :now
      FROM waiting WHERE id = waiting_id
    RETURNING {claimed_run_columns}
), run AS MATERIALIZED (
    SELECT * FROM begun
    UNION ALL
    SELECT {claimed_run_columns} FROM workflowrun
     WHERE id = ANY(ARRAY(SELECT picked_run FROM picked)) AND status <> 'PENDING'
       AND coalesce(definition_id, 0) <= :known_definitions
), claimed AS (
    UPDATE runstep
       SET status = 'RUNNING', worker_id = :worker_id, lease_token = :lease, start_date = :now, status_date = :now,
           status_message = NULL
      FROM picked WHERE id = picked_id AND (picked_run IN (SELECT run.id FROM run)) IS TRUE
    RETURNING {claimed_columns}
), held AS MATERIALIZED (
    SELECT id AS held_id FROM rungroup
     WHERE id = ANY(ARRAY(SELECT run_group_id FROM begun)) AND status = 'PENDING' ORDER BY id FOR NO KEY UPDATE
), started AS (
    UPDATE rungroup SET status = 'RUNNING', start_date = coalesce(start_date, :now), status_date = :now
      FROM held WHERE id = held_id AND status = 'PENDING'
    RETURNING id, workflow_definition_id
), listener AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(CAST(:listeners AS jsonb))
               AS x (workflow text, event text, place int, handler text, retries int)
), happened AS (
    SELECT 1 AS rank, 'group_start' AS event, workflow_definition_id AS workflow, id AS group_id,
           CAST(NULL AS bigint) AS run_id, CAST(NULL AS bigint) AS step_id
      FROM started
    UNION ALL
    SELECT 2, 'item_start', workflow_definition_id, run_group_id, id, NULL FROM begun
     WHERE EXISTS (SELECT 1 FROM listener WHERE event = 'item_start')
    UNION ALL
    SELECT 3, 'step_start', run.workflow_definition_id, run.run_group_id, run.id, claimed.id
      FROM claimed JOIN run ON run.id = claimed.workflow_run_id
     WHERE EXISTS (SELECT 1 FROM listener WHERE event = 'step_start')
), written AS (
    INSERT INTO lifecyclehistory (event, handler_name, run_group_id, workflow_run_id, step_id, start_date, completed_date,
                                  status, status_date, status_meta, retry, retries, available_at)
    SELECT h.event, l.handler, h.group_id, h.run_id, h.step_id, :now,
           CASE WHEN l.handler IS NULL THEN CAST(:now AS timestamptz) END,
           CASE WHEN l.handler IS NULL THEN 'COMPLETED' ELSE 'PENDING' END, :now, '{}', 0, coalesce(l.retries, 1), :now
      FROM happened h LEFT JOIN listener l ON l.workflow = h.workflow AND l.event = h.event
     WHERE l.handler IS NOT NULL OR h.event = 'group_start'
     ORDER BY h.rank, h.run_id, h.step_id, l.place
    RETURNING handler_name
)
SELECT 'step' AS kind, {step_as_row} FROM claimed
UNION ALL
SELECT 'run', {run_as_row} FROM run
UNION ALL
(SELECT 'busy', {no_row} FROM picked WHERE picked_run NOT IN (SELECT run.id FROM run) LIMIT 1)
UNION ALL
(SELECT 'delivery', {no_row} FROM written WHERE handler_name IS NOT NULL LIMIT 1);

-- As claim_ready, for the steps of one resource.
-- :name claim_ready_keyed
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM runstep
     WHERE {ready_keyed} AND step_type = :step_type AND resource_key = :resource_key
     ORDER BY priority DESC, queue_key, id LIMIT :limit
       FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE runstep
   SET status = 'RUNNING', worker_id = :worker_id, lease_token = :lease, start_date = :now, status_date = :now,
       status_message = NULL
  FROM picked WHERE id = picked_id
RETURNING {claimed_columns};

-- SKIP LOCKED: a step that another worker promotes is left to it. ARRAY: the planner then expects few steps and goes by
-- the primary key, however many wait.
-- :name promote_due_steps
WITH due AS MATERIALIZED (
    SELECT id AS due_id FROM runstep WHERE available_at IS NOT NULL AND available_at <= :now
     ORDER BY available_at LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE runstep SET available_at = NULL, awaits = NULL WHERE id = ANY(ARRAY(SELECT due_id FROM due)) RETURNING id;

-- SKIP LOCKED: whoever holds a run may be waiting for the step that was just claimed.
-- :name start_runs
WITH waiting AS MATERIALIZED (
    SELECT id AS waiting_id FROM workflowrun WHERE id = ANY(:ids) AND status = 'PENDING' FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE workflowrun SET status = 'RUNNING', start_date = coalesce(start_date, :now), status_date = :now
  FROM waiting WHERE id = waiting_id
RETURNING {claimed_run_columns}, {group_status};

-- In the order of ids, as everywhere: two workers that start the same groups cannot wait for one another.
-- :name start_groups
WITH waiting AS MATERIALIZED (
    SELECT id AS waiting_id FROM rungroup WHERE id = ANY(:ids) AND status = 'PENDING' ORDER BY id FOR NO KEY UPDATE
)
UPDATE rungroup SET status = 'RUNNING', start_date = coalesce(start_date, :now), status_date = :now
  FROM waiting WHERE id = waiting_id AND status = 'PENDING'
RETURNING id;
