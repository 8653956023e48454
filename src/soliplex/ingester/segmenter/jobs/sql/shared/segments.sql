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

-- An article that was told of as FAILED, and is whole now that its job was retried, is told of once more. One that is
-- whole already stays as it was told of: the worker that tagged it has died before its step was recorded.
-- :name complete_segment
UPDATE segment SET status = 'COMPLETED', tags = {json tags}, lang = :lang, timeit = :timeit, errormessage = NULL,
                   is_told = false, updated_at = :now
 WHERE id = :id AND status <> 'COMPLETED' RETURNING id;

-- :name fail_the_rest
UPDATE segment SET status = 'FAILED', errormessage = :message, updated_at = :now
 WHERE document_id = :document_id AND status = 'PENDING';

-- :name note_failure
UPDATE segment SET status = 'FAILED', errormessage = :message, updated_at = :now WHERE id = :id AND status = 'PENDING';

-- :name count_segments
SELECT count(*) AS total, sum(CASE WHEN status = 'PENDING' THEN 1 ELSE 0 END) AS pending,
       sum(CASE WHEN status = 'FAILED' THEN 1 ELSE 0 END) AS failed
  FROM segment WHERE document_id = :document_id;

-- The languages of a job's articles, each with how they were told and how much text is in them.
-- :name languages_of_articles
SELECT t.output ->> 'lang' AS lang, t.output ->> 'lang_by' AS lang_by, sum(length(g.body)) AS characters
  FROM runstep p JOIN runstep t ON t.parent_step_id = p.id
                 JOIN segment g ON g.id = CAST(CAST(t.input AS text) AS bigint)
 WHERE p.workflow_run_id = :run_id AND p.workflow_step_name = 'tag' AND t.status = 'COMPLETED'
   AND t.output ->> 'lang_by' IS NOT NULL
 GROUP BY t.output ->> 'lang', t.output ->> 'lang_by'
 ORDER BY characters DESC, lang;

-- Articles count from 0 without gaps, so the index tells how many there are.
-- :name count_articles
SELECT coalesce(max(ordinal) + 1, 0) AS articles FROM segment WHERE document_id = :document_id;

-- :name count_articles_of_documents
SELECT u.id, (SELECT coalesce(max(g.ordinal) + 1, 0) FROM segment g WHERE g.document_id = u.id) AS articles
  FROM documenturi u WHERE u.id {among ids};

-- :name characters_of_document
SELECT coalesce(sum(length(body)), 0) AS characters FROM segment WHERE document_id = :document_id AND status <> 'PENDING';

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
