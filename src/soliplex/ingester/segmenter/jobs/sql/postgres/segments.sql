-- PostgreSQL takes JSON apart into typed columns.
-- :name insert_segments
INSERT INTO segment (document_id, ordinal, status, title, group_path, body, pagenr, tags, is_told, created_at, updated_at)
SELECT :document_id, x.ordinal, 'PENDING', x.title, x."group", x.body, x.page, '[]', false, CAST(:now AS timestamptz),
       CAST(:now AS timestamptz)
  FROM jsonb_to_recordset(CAST(:articles AS jsonb)) AS x (ordinal integer, title text, "group" text, body text, page integer)
RETURNING id, ordinal;

-- Whoever changes the steps of a run holds its row first: while it is held, no step of it is taken back.
-- :name hold_run
SELECT id FROM workflowrun WHERE id = :run_id FOR UPDATE;
