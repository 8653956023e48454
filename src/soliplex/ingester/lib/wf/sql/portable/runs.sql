-- :name insert_group
INSERT INTO rungroup (name, workflow_definition_id, param_definition_id, batch_id, created_date, status, status_date,
                      status_meta, total_runs, remaining_runs, failed_runs, cancelled_runs)
VALUES (:name, :workflow_id, :param_id, :batch_id, :now, 'PENDING', :now, '{}', :runs, :runs, 0, 0)
RETURNING id;

-- :name lock_group
SELECT id, workflow_definition_id, batch_id, status, status_date, completed_date, cancel_requested_at FROM rungroup
 WHERE id = :group_id;

-- A group that had ended begins anew with the runs that join it.
-- :name grow_group
UPDATE rungroup
   SET total_runs = total_runs + :runs, remaining_runs = remaining_runs + :runs,
       status = CASE WHEN completed_date IS NULL THEN status ELSE 'PENDING' END,
       status_date = CASE WHEN completed_date IS NULL THEN status_date ELSE :now END, completed_date = NULL
 WHERE id = :group_id;

-- The queue key of the work that is under way: a group that starts now takes its place beside it, not behind all that waits.
-- A quick stage runs far ahead of a slow one, whose queue is the one that must not be joined at its end. Where nothing of this
-- priority is under way: the head of what is ready.
-- :fragment with_queue_front
WITH RECURSIVE kind (step_type) AS (
    SELECT min(step_type) FROM runstep WHERE {ready}
    UNION ALL
    SELECT (SELECT min(step_type) FROM runstep WHERE {ready} AND step_type > kind.step_type)
      FROM kind WHERE kind.step_type IS NOT NULL
), front (queue_key) AS (
    SELECT coalesce(
        (SELECT min(stage.queue_key)
           FROM (SELECT max(queue_key) AS queue_key FROM runstep
                  WHERE status = 'RUNNING' AND lease_token IS NOT NULL AND priority = :priority GROUP BY step_type) stage),
        (SELECT min(head.queue_key)
           FROM (SELECT (SELECT queue_key FROM runstep WHERE {ready} AND step_type = kind.step_type AND priority = :priority
                          ORDER BY queue_key, id LIMIT 1) AS queue_key
                   FROM kind WHERE kind.step_type IS NOT NULL) head),
        0)
)

-- :name insert_runs
{with_queue_front}
INSERT INTO workflowrun (workflow_definition_id, run_group_id, batch_id, doc_id, priority, created_date, status,
                         status_date, status_meta, run_params, input, remaining_steps, failed_steps, queue_key)
SELECT :workflow_id, :group_id, :batch_id, json_extract(x.value, '$.doc_id'), :priority, :now, 'PENDING', :now, '{}',
       coalesce(x.value -> '$.params', '{}'), x.value -> '$.input', :steps, 0, front.queue_key + x.key
  FROM front CROSS JOIN json_each(:runs) x
RETURNING id;

-- :name insert_steps
INSERT INTO runstep (workflow_run_id, workflow_step_number, workflow_step_name, step_config_id, step_type, is_last_step,
                     created_date, priority, queue_key, retry, retries, status, status_meta, resource_key,
                     remaining_deps, remaining_tasks, timeout_seconds, isolation, optional)
SELECT r.id, json_extract(t.value, '$.number'), json_extract(t.value, '$.name'), json_extract(t.value, '$.config_id'),
       json_extract(t.value, '$.type'), json_extract(t.value, '$.is_last'), :now, r.priority, r.queue_key, 0,
       json_extract(t.value, '$.retries'), 'PENDING', '{}', json_extract(t.value, '$.resource_key'),
       json_extract(t.value, '$.deps'), 0, json_extract(t.value, '$.timeout'), json_extract(t.value, '$.isolation'),
       json_extract(t.value, '$.optional')
  FROM workflowrun r CROSS JOIN json_each(:templates) t
 WHERE r.run_group_id = :group_id AND r.id >= :first_id
 ORDER BY r.id, t.key;

-- :name insert_edges
INSERT INTO runstepdependency (depends_on_id, step_id)
SELECT a.id, b.id
  FROM workflowrun r
       CROSS JOIN json_each(:edges) e
       JOIN runstep a ON a.workflow_run_id = r.id AND a.workflow_step_number = json_extract(e.value, '$[0]')
       JOIN runstep b ON b.workflow_run_id = r.id AND b.workflow_step_number = json_extract(e.value, '$[1]')
 WHERE r.run_group_id = :group_id AND r.id >= :first_id;

-- Tells idle workers of other processes; SQLite's notice the change of the file.
-- :name notify
SELECT 1 WHERE :channel IS NULL;

-- :name insert_step_config
INSERT INTO stepconfig (created_date, step_type, config_json, cuml_config_json, cuml_hash)
VALUES (:now, :step_type, :config, :cumulative, :hash)
ON CONFLICT (step_type, cuml_hash) DO NOTHING
RETURNING id;

-- :name find_step_config
SELECT id FROM stepconfig WHERE step_type = :step_type AND cuml_hash = :hash;

-- :name insert_config_set
INSERT INTO configset (yaml_id, yaml_contents, yaml_hash, created_date) VALUES (:yaml_id, :contents, :hash, :now)
ON CONFLICT (yaml_id, yaml_hash) DO NOTHING
RETURNING id;

-- :name find_config_set
SELECT id FROM configset WHERE yaml_id = :yaml_id AND yaml_hash = :hash;

-- :name items_of_config_set
SELECT config_id FROM configsetitem WHERE config_set_id = :config_set_id;

-- :name insert_config_set_item
INSERT INTO configsetitem (config_set_id, config_id) VALUES (:config_set_id, :config_id) ON CONFLICT DO NOTHING;

-- :name step_configs_by_id
SELECT id, created_date, step_type, CAST(config_json AS text) AS config_json, cuml_config_json, cuml_hash FROM stepconfig
 WHERE id IN (SELECT value FROM json_each(:ids));
