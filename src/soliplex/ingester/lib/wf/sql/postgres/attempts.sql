-- PostgreSQL reads JSON as typed records.
-- :name insert_attempts
INSERT INTO stepattempt (step_id, attempt, worker_id, start_date, end_date, error_type, message, traceback)
SELECT s.id, s.retry, s.worker_id, s.start_date, :now, x.meta ->> 'error_type', x.message, x.meta ->> 'traceback'
  FROM jsonb_to_recordset(CAST(:results AS jsonb)) AS x (id bigint, message text, meta jsonb) JOIN runstep s ON s.id = x.id
 WHERE s.id = ANY(:ids);
