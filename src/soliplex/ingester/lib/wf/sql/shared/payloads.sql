-- :name insert_payload_of_step
INSERT INTO payload (workflow_run_id, step_id, is_state, content, created_at)
SELECT workflow_run_id, id, :is_state, :content, :now FROM runstep WHERE id = :step_id
RETURNING id;

-- The states of a step that came before the one that its handler was given. Ids grow, so smaller ones are older; no
-- handler is given those any more.
-- :name delete_older_states
DELETE FROM payload WHERE step_id = :step_id AND is_state AND id < :before;

-- :name insert_payload_of_run
INSERT INTO payload (workflow_run_id, step_id, is_state, content, created_at)
VALUES (:run_id, NULL, false, :content, :now)
RETURNING id;

-- :name set_run_input
UPDATE workflowrun SET input = :reference WHERE id = :run_id;

-- :name lay_aside_large_outputs
INSERT INTO payload (workflow_run_id, step_id, is_state, content, created_at)
SELECT workflow_run_id, id, false, CAST(output AS text), :now FROM runstep
 WHERE id {among ids} AND length(CAST(output AS text)) > :large
RETURNING id, step_id, length(content) AS size;

-- :name set_step_output
UPDATE runstep SET output = :reference WHERE id = :step_id;

-- :name payloads_by_id
SELECT id, content FROM payload WHERE id {among ids};

-- :name some_payloads_of_runs
SELECT id FROM payload WHERE workflow_run_id {among ids} ORDER BY workflow_run_id, id LIMIT :limit;

-- :name delete_payloads
DELETE FROM payload WHERE id {among ids};

-- :name delete_payloads_of_runs
DELETE FROM payload WHERE workflow_run_id {among ids};
