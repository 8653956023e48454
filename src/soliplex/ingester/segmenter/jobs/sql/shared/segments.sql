-- :fragment segment_columns
g.id, g.document_id, g.ordinal, g.status, g.title, g.group_path, g.body, g.pagenr, CAST(g.tags AS text) AS tags, g.lang,
g.errormessage, g.timeit, g.created_at, g.updated_at

-- :name delete_segments
DELETE FROM segment WHERE document_id = :document_id;

-- :name segment_by_id
SELECT {segment_columns} FROM segment g WHERE g.id = :id AND g.status <> 'PENDING';

-- :name segments_of_document
SELECT {segment_columns} FROM segment g WHERE g.document_id = :document_id AND g.status <> 'PENDING' ORDER BY g.ordinal;

-- :name article_to_tag
SELECT {segment_columns} FROM segment g WHERE g.id = :id;

-- :name complete_segment
UPDATE segment SET status = 'COMPLETED', tags = {json tags}, lang = :lang, timeit = :timeit, errormessage = NULL,
                   updated_at = :now
 WHERE id = :id RETURNING id;

-- :name fail_the_rest
UPDATE segment SET status = 'FAILED', errormessage = :message, updated_at = :now
 WHERE document_id = :document_id AND status = 'PENDING';

-- :name note_failure
UPDATE segment SET status = 'FAILED', errormessage = :message, updated_at = :now WHERE id = :id AND status = 'PENDING';

-- :name count_segments
SELECT document_id, count(*) AS total, sum(CASE WHEN status = 'PENDING' THEN 1 ELSE 0 END) AS pending,
       sum(CASE WHEN status = 'FAILED' THEN 1 ELSE 0 END) AS failed
  FROM segment WHERE document_id {among ids} GROUP BY document_id;

-- :name mark_told
UPDATE segment SET is_told = true WHERE document_id = :document_id AND status <> 'PENDING' AND NOT is_told RETURNING id;

-- :name segments_by_ids
SELECT {segment_columns} FROM segment g WHERE g.id {among ids} ORDER BY g.ordinal;

-- :name tasks_that_failed
SELECT CAST(t.input AS text) AS input, t.status_message
  FROM runstep t JOIN runstep p ON p.id = t.parent_step_id
 WHERE p.workflow_run_id = :run_id AND p.workflow_step_name = 'tag' AND t.status = 'FAILED';

-- :name step_is_held
SELECT 1 FROM runstep WHERE id = :id AND lease_token = :lease;

-- :name bodies_of_document
SELECT body FROM segment WHERE document_id = :document_id ORDER BY ordinal;
