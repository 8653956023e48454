-- pgmq exists for PostgreSQL only, and so do these statements.

-- A step that is no longer held under its lease is not sent: its run is held, so nobody takes the lease meanwhile. pgmq
-- gives the messages their ids in the order of the list. PostgreSQL alone has pgmq.
-- :name send_tasks
WITH due AS MATERIALIZED (
    SELECT s.id, s.workflow_run_id, s.workflow_step_name, s.parent_step_id, x.headers, row_number() OVER (ORDER BY s.id) AS place
      FROM jsonb_to_recordset(CAST(:tasks AS jsonb)) AS x (id bigint, lease text, headers jsonb)
           JOIN runstep s ON s.id = x.id AND s.lease_token = x.lease
), packed AS MATERIALIZED (
    SELECT array_agg(jsonb_build_object(
               'workflow_run_id', workflow_run_id, 'step_name', workflow_step_name,
               'step_state_id', coalesce(parent_step_id, id),
               'step_task_id', CASE WHEN parent_step_id IS NOT NULL THEN id END,
               'is_map_task', parent_step_id IS NOT NULL) ORDER BY place) AS messages,
           array_agg(headers ORDER BY place) AS headers
      FROM due HAVING count(*) > 0
)
SELECT due.id, sent.msg_id
  FROM packed CROSS JOIN LATERAL pgmq.send_batch(:queue, messages, headers) WITH ORDINALITY AS sent (msg_id, place)
       JOIN due ON due.place = sent.place;

-- PostgreSQL alone has pgmq.
-- :name archive_messages
SELECT pgmq.archive(CAST(:queue AS text), CAST(:ids AS bigint[]));

-- PostgreSQL alone has pgmq.
-- :name fail_lost_tasks
SELECT fail_lost_tasks(:queue, :now, :patience, :most) AS lost;

-- A queue that others have made counts once messages that were read can be found in it (`open_task_queue`). PostgreSQL
-- alone has pgmq.
-- :name look_for_queue
SELECT to_regclass('pgmq.meta') IS NOT NULL AS has_pgmq,
       EXISTS (SELECT 1 FROM taskqueue WHERE name = CAST(:queue AS text))
       AND to_regclass('pgmq.q_' || CAST(:queue AS text)) IS NOT NULL AS is_there;

-- PostgreSQL alone has pgmq. Two workers that make the same queue at once wait for one another inside of it.
-- :name open_task_queue
SELECT open_task_queue(:queue, :now);
