-- PostgreSQL makes JSON by its functions.
-- :name signal_parents
INSERT INTO signal (key, payload, created_at, is_new)
SELECT run_key, jsonb_build_object(':run', id, 'status', CAST(:status AS text), 'output', output,
                                   'error', CAST(:error AS text)), :now, true
  FROM workflowrun r WHERE id = :run_id AND {its_step_waits};
