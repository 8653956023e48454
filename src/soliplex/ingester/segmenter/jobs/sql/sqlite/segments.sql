-- SQLite takes JSON apart by paths. WHERE true keeps it from reading what follows as part of a join.
-- :name insert_segments
INSERT INTO segment (document_id, ordinal, status, title, group_path, body, pagenr, tags, is_told, created_at, updated_at)
SELECT :document_id, json_extract(x.value, '$.ordinal'), 'PENDING', json_extract(x.value, '$.title'),
       json_extract(x.value, '$.group'), json_extract(x.value, '$.body'), json_extract(x.value, '$.page'), '[]', false,
       :now, :now
  FROM json_each(:articles) x WHERE true
RETURNING id, ordinal;

-- SQLite has one writer at a time: nothing needs to be held.
-- :name hold_run
SELECT 1 WHERE :run_id IS NULL;
