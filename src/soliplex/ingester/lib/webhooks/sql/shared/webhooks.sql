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

-- :name delete_stream
DELETE FROM webhookmessage WHERE stream = :stream RETURNING id;

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

-- :name message_to_redeliver
SELECT m.id, m.run_id, m.stream, m.url, m.status, r.status AS run_status
  FROM webhookmessage m JOIN workflowrun r ON r.id = m.run_id
 WHERE m.id = :id;

-- Runs with dead letters, some at a time: those that were given up, and those whose run has ended without them.
-- :name runs_with_dead_letters
SELECT run_id, min(id) AS first_id
  FROM (SELECT m.run_id, m.id FROM webhookmessage m WHERE m.status = 'DEAD' AND m.settled_at >= {moment since}
        UNION ALL
        SELECT m.run_id, m.id FROM webhookmessage m JOIN workflowrun r ON r.id = m.run_id
         WHERE m.status = 'PENDING' AND r.completed_date >= {moment since}) AS dead
 WHERE run_id > :after
 GROUP BY run_id ORDER BY run_id LIMIT 100;

-- :name dead_letters_of_run
SELECT m.id
  FROM webhookmessage m JOIN workflowrun r ON r.id = m.run_id
 WHERE m.run_id = :run_id
   AND (m.status = 'DEAD' AND m.settled_at >= {moment since}
        OR m.status = 'PENDING' AND r.completed_date >= {moment since});

-- :name others_pending
SELECT id FROM webhookmessage WHERE run_id = :run_id AND status = 'PENDING' AND NOT id {among ids} LIMIT 1;

-- :name put_back
UPDATE webhookmessage
   SET status = 'PENDING', settled_at = NULL, try_count = 0, expires_at = :expires_at, run_id = :run_id
 WHERE id {among ids};
