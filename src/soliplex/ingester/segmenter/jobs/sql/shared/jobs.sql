-- :name mime_type_of_document
SELECT mime_type FROM document WHERE hash = :hash;

-- :fragment job_columns
r.id, r.run_key, r.doc_id, r.run_group_id, r.status, r.status_message, r.created_date, r.start_date, r.status_date,
r.completed_date, CAST(r.run_params AS text) AS run_params, coalesce(r.cancel_requested_at >= r.deadline, false) AS is_overdue

-- :name job_by_key
SELECT {job_columns} FROM workflowrun r WHERE r.workflow_definition_id = :workflow_id AND r.run_key = :job_id;

-- :name job_by_run
SELECT {job_columns} FROM workflowrun r WHERE r.id = :run_id AND r.run_key IS NOT NULL;

-- The keys of jobs sort by the time they were made, and the index holds them in that order.
-- :name newest_jobs
SELECT {job_columns} FROM workflowrun r
 WHERE r.workflow_definition_id = :workflow_id AND r.run_key IS NOT NULL
 ORDER BY r.run_key DESC LIMIT :limit OFFSET :offset;

-- :name newest_jobs_in_status
SELECT {job_columns} FROM workflowrun r
 WHERE r.workflow_definition_id = :workflow_id AND r.run_key IS NOT NULL
   AND r.status {among statuses} AND (CAST(:has_begun AS boolean) IS NULL OR (r.start_date IS NOT NULL) = CAST(:has_begun AS boolean))
 ORDER BY r.run_key DESC LIMIT :limit OFFSET :offset;

-- :name count_jobs
SELECT status, start_date IS NOT NULL AS has_begun, count(*) AS jobs FROM workflowrun
 WHERE workflow_definition_id = :workflow_id AND run_key IS NOT NULL
 GROUP BY status, start_date IS NOT NULL;

-- :name jobs_by_keys
SELECT {job_columns} FROM workflowrun r WHERE r.workflow_definition_id = :workflow_id AND r.run_key {among keys};

-- A map step whose run was ended counts no tasks down any more: of such a one those that were done are counted.
-- :name steps_of_jobs
SELECT workflow_run_id, workflow_step_name, status, remaining_tasks, start_date, CAST(progress AS text) AS progress,
       CASE WHEN workflow_step_name = 'tag' AND status <> 'COMPLETED' AND coalesce(remaining_tasks, 0) = 0
            THEN (SELECT count(*) FROM runstep t WHERE t.parent_step_id = runstep.id AND t.status IN ('COMPLETED', 'FAILED'))
       END AS tagged,
       output ->> 'warnings' AS warnings, output ->> 'warning' AS warning, output ->> 'failed' AS failed,
       output ->> 'lang' AS lang
  FROM runstep WHERE workflow_run_id {among ids} AND parent_step_id IS NULL;

-- Why a run failed: the last failed attempt of the step that did.
-- :name failures_of_jobs
SELECT s.workflow_run_id, s.workflow_step_name, a.message, a.traceback
  FROM runstep s JOIN stepattempt a ON a.step_id = s.id
 WHERE s.workflow_run_id {among ids} AND s.parent_step_id IS NULL AND s.status = 'FAILED'
 ORDER BY s.workflow_run_id, a.id;

-- :name moment_of_event
SELECT start_date FROM lifecyclehistory WHERE id = :id;

-- A job has its time from the moment it begins: those that wait for others to end do not use theirs up.
-- :name set_deadline
UPDATE workflowrun SET deadline = :deadline WHERE id = :run_id AND completed_date IS NULL RETURNING id;

-- :fragment document_columns
u.id, u.uri, d.mime_type, d.file_size,
(SELECT min(h.process_date) FROM documenturihistory h WHERE h.doc_uri_id = u.id) AS created_at,
EXISTS (SELECT 1 FROM segment g WHERE g.document_id = u.id) AS has_segments

-- :name document_by_id
SELECT {document_columns} FROM documenturi u JOIN document d ON d.hash = u.doc_hash
 WHERE u.id = :id AND u.source = :source;

-- :name documents_by_ids
SELECT {document_columns} FROM documenturi u JOIN document d ON d.hash = u.doc_hash
 WHERE u.id {among ids} AND u.source = :source ORDER BY u.uri DESC;

-- The URIs of jobs sort by the time the jobs were made, and the index of URIs by source holds them in that order.
-- :name newest_documents
SELECT {document_columns} FROM documenturi u JOIN document d ON d.hash = u.doc_hash
 WHERE u.source = :source ORDER BY u.uri DESC LIMIT :limit OFFSET :offset;

-- :name count_documents
SELECT count(*) AS documents FROM documenturi WHERE source = :source;

-- Documents whose job is gone. The URI of a job's document is segmenter:<id of the job>/<name>; the id has 32 digits.
-- :name documents_without_jobs
SELECT u.uri FROM documenturi u
 WHERE u.source = :source AND u.uri LIKE 'segmenter:%' AND substr(u.uri, 43, 1) = '/'
   AND NOT EXISTS (SELECT 1 FROM workflowrun r
                    WHERE r.workflow_definition_id = :workflow_id AND r.run_key = substr(u.uri, 11, 32))
 ORDER BY u.uri LIMIT :limit;
