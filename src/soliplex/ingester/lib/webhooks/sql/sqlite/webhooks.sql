-- SQLite has one writer at a time: nobody else can change the messages of these streams.
-- :name hold_streams
SELECT value AS stream FROM json_each(:streams);

-- SQLite takes JSON apart by paths.
-- :name settle_messages
UPDATE webhookmessage
   SET status = x.status, try_count = x.try_count, tries = x.tries,
       settled_at = CASE WHEN x.status = 'PENDING' THEN NULL ELSE :now END
  FROM (SELECT value ->> 'id' AS id, value ->> 'status' AS status, value ->> 'try_count' AS try_count,
               value -> 'tries' AS tries
          FROM json_each(:results)) AS x
 WHERE webhookmessage.id = x.id AND webhookmessage.status = 'PENDING';

-- SQLite has one writer at a time: nobody else can end the run.
-- :name hold_run
SELECT status, completed_date FROM workflowrun WHERE id = :run_id;
