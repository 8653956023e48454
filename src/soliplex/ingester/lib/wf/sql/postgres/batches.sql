-- :name lock_batches
SELECT id FROM documentbatch WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE;

-- :name complete_batches
UPDATE documentbatch SET completed_date = :now
 WHERE id = ANY(:ids) AND completed_date IS NULL
   AND NOT EXISTS (SELECT 1 FROM rungroup g WHERE g.batch_id = documentbatch.id AND g.remaining_runs > 0);

-- :name reopen_batches
UPDATE documentbatch SET completed_date = NULL WHERE id = ANY(:ids) AND completed_date IS NOT NULL;
