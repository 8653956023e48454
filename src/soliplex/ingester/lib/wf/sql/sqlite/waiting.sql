-- SQLite reads JSON by its functions.
-- :name park_steps
UPDATE runstep
   SET status = 'PENDING', status_date = :now, lease_token = NULL, worker_id = NULL, retry = 0, repeats = repeats + 1,
       state = x.value -> '$.state', answer = NULL, awaits = json_extract(x.value, '$.awaits'),
       available_at = json_extract(x.value, '$.available_at'), status_message = json_extract(x.value, '$.message')
  FROM json_each(:results) x
 WHERE runstep.id = json_extract(x.value, '$.id') AND lease_token = json_extract(x.value, '$.lease')
RETURNING id, workflow_run_id, parent_step_id, worker_id, resource_key, step_type, priority, awaits, available_at;

-- SQLite has one writer at a time: nobody else can change the signals of these keys.
-- :name hold_keys
SELECT value AS key FROM json_each(:keys);

-- As hold_keys: nobody else can hold them.
-- :name try_to_hold_keys
SELECT value AS key FROM json_each(:keys);

-- SQLite reads JSON by its functions.
-- :name resume_steps
UPDATE runstep
   SET awaits = NULL, available_at = NULL, answer = s.payload, status_date = :now, status_message = NULL
  FROM json_each(:pairs) x JOIN signal s ON s.id = json_extract(x.value, '$.signal_id')
 WHERE runstep.id = json_extract(x.value, '$.step_id') AND runstep.awaits = s.key
RETURNING id, workflow_run_id, step_type, priority;
