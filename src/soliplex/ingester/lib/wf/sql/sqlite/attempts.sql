-- SQLite reads JSON by its functions.
-- :name insert_attempts
INSERT INTO stepattempt (step_id, attempt, worker_id, start_date, end_date, error_type, message, traceback)
SELECT s.id, s.retry, s.worker_id, s.start_date, :now, json_extract(x.value, '$.meta.error_type'),
       json_extract(x.value, '$.message'), json_extract(x.value, '$.meta.traceback')
  FROM json_each(:results) x JOIN runstep s ON s.id = json_extract(x.value, '$.id')
 WHERE s.id IN (SELECT value FROM json_each(:ids));
