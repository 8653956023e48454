-- :name complete_batches
UPDATE documentbatch SET completed_date = :now
 WHERE id {among ids} AND completed_date IS NULL
   AND NOT EXISTS (SELECT 1 FROM rungroup g WHERE g.batch_id = documentbatch.id AND g.remaining_runs > 0);

-- :name reopen_batches
UPDATE documentbatch SET completed_date = NULL
 WHERE id {among ids} AND completed_date IS NOT NULL;

-- :name batch_documents
SELECT u.doc_hash, max(d.doc_meta ->> '_priority') AS priority
  FROM documenturi u JOIN document d ON d.hash = u.doc_hash
 WHERE u.batch_id = :batch_id GROUP BY u.doc_hash ORDER BY min(u.id);

-- :name batch_documents_without_run
SELECT u.doc_hash, max(d.doc_meta ->> '_priority') AS priority
  FROM documenturi u JOIN document d ON d.hash = u.doc_hash
 WHERE u.batch_id = :batch_id
   AND u.doc_hash NOT IN (SELECT r.doc_id FROM workflowrun r WHERE r.run_group_id = :group_id AND r.doc_id IS NOT NULL)
 GROUP BY u.doc_hash ORDER BY min(u.id);

-- How the documents of a batch fare: each counts once, by the newest of its runs there. What is to be fetched is no
-- document yet; it counts by its run until it is one.
-- :name documents_by_status
SELECT r.status, count(*) AS documents
  FROM (SELECT max(id) AS id FROM workflowrun
         WHERE batch_id = :batch_id AND doc_id IN (SELECT doc_hash FROM documenturi WHERE batch_id = :batch_id)
         GROUP BY doc_id) newest
  JOIN workflowrun r ON r.id = newest.id
 GROUP BY r.status
UNION ALL
SELECT status, count(*) FROM workflowrun
 WHERE batch_id = :batch_id AND doc_id IS NULL AND status <> 'COMPLETED' GROUP BY status;

-- :name count_documents_of_batch
SELECT count(DISTINCT doc_hash) AS documents FROM documenturi WHERE batch_id = :batch_id;

-- :name newest_group
SELECT id FROM rungroup
 WHERE batch_id = :batch_id AND workflow_definition_id = :workflow_id AND param_definition_id = :param_id
 ORDER BY id DESC LIMIT 1;
