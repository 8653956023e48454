-- :name insert_group
INSERT INTO rungroup (name, workflow_definition_id, param_definition_id, batch_id, created_date, status, status_date,
                      status_meta, total_runs, remaining_runs, failed_runs, cancelled_runs)
VALUES (:name, :workflow_id, :param_id, :batch_id, :now, 'PENDING', :now, '{}', :runs, :runs, 0, 0)
RETURNING id;

-- A group that had ended begins anew with the runs that join it.
-- :name grow_group
UPDATE rungroup
   SET total_runs = total_runs + :runs, remaining_runs = remaining_runs + :runs,
       status = CASE WHEN completed_date IS NULL THEN status ELSE 'PENDING' END,
       status_date = CASE WHEN completed_date IS NULL THEN status_date ELSE :now END, completed_date = NULL
 WHERE id = :group_id
RETURNING remaining_runs;

-- The queue key of the work that is under way: a group that starts now takes its place beside it, not behind all that
-- waits. A quick stage runs far ahead of a slow one, whose queue is the one that must not be joined at its end. Where
-- nothing of this priority is under way: the head of what is ready.
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
 WHERE id {among ids};

-- :name run_by_key
SELECT id, run_group_id FROM workflowrun
 WHERE workflow_definition_id = :workflow_id AND run_key = :run_key AND run_key IS NOT NULL;
