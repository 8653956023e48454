-- SQLite makes JSON by its functions.
-- :name signal_parents
INSERT INTO signal (key, payload, created_at, is_new)
SELECT run_key, json_object(':run', id, 'status', :status, 'output', json(coalesce(output, 'null')), 'error', :error), :now, true
  FROM workflowrun r WHERE id = :run_id AND {its_step_waits};
