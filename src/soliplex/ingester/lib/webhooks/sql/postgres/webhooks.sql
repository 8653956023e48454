-- Locked to the end of the transaction, in the order of names, so that two that settle messages cannot wait for one another.
-- :name hold_streams
SELECT pg_advisory_xact_lock(hashtextextended('soliplex-webhooks:' || stream, 0))
  FROM (SELECT stream FROM unnest(CAST(:streams AS text[])) AS stream ORDER BY stream) AS ordered;

-- PostgreSQL reads JSON as typed records.
-- :name settle_messages
UPDATE webhookmessage m
   SET status = x.status, try_count = x.try_count, tries = x.tries,
       settled_at = CASE WHEN x.status = 'PENDING' THEN NULL ELSE {moment now} END
  FROM jsonb_to_recordset(CAST(:results AS jsonb)) AS x(id bigint, status text, try_count integer, tries jsonb)
 WHERE m.id = x.id AND m.status = 'PENDING';

-- Waits until whoever ends the run has ended it.
-- :name hold_run
SELECT status, completed_date FROM workflowrun WHERE id = :run_id FOR NO KEY UPDATE;
