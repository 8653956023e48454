-- :fragment message
m.id, m.webhook_id, m.stream, m.sequence, m.run_id, m.url, m.body, m.secret, m.created_at, m.expires_at, m.try_count,
       CAST(m.tries AS text) AS tries

-- :name message_by_webhook_id
SELECT id, run_id FROM webhookmessage WHERE webhook_id = :webhook_id;

-- A run that has ended, or will be stopped, delivers nothing more: the messages that it has left wait for somebody who
-- retries it.
-- :name run_of_pending
SELECT m.run_id
  FROM webhookmessage m JOIN workflowrun r ON r.id = m.run_id
 WHERE m.stream = :stream AND m.status = 'PENDING' AND r.completed_date IS NULL AND r.cancel_requested_at IS NULL
 ORDER BY m.sequence DESC LIMIT 1;

-- :name insert_message
INSERT INTO webhookmessage (webhook_id, stream, sequence, run_id, url, event_type, body, secret, status, created_at,
                            expires_at, try_count, tries)
VALUES (:webhook_id, CAST(:stream AS varchar),
        1 + COALESCE((SELECT max(sequence) FROM webhookmessage WHERE stream = CAST(:stream AS varchar)), 0), :run_id, :url,
        :event_type, :body, :secret, 'PENDING', :now, :expires_at, 0, '[]')
RETURNING id;

-- The first message that each of the runs has still to deliver.
-- :name next_messages
SELECT {message}
  FROM webhookmessage m
 WHERE m.run_id {among runs} AND m.status = 'PENDING'
   AND m.sequence = (SELECT min(n.sequence) FROM webhookmessage n WHERE n.run_id = m.run_id AND n.status = 'PENDING');

-- :name dead_of_runs
SELECT run_id, count(*) AS dead FROM webhookmessage WHERE run_id {among runs} AND status = 'DEAD' GROUP BY run_id;

-- :name revive_dead
UPDATE webhookmessage
   SET status = 'PENDING', settled_at = NULL, try_count = 0, expires_at = :expires_at
 WHERE run_id {among runs} AND status = 'DEAD';
