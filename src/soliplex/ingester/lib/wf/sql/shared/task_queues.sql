-- Steps that were sent to queues of pgmq (`operations/task_queues.py`). On SQLite there are none: these find nothing.

-- :name tasks_of_runs
SELECT awaits FROM runstep WHERE workflow_run_id {among ids} AND awaits LIKE ':queue:%';

-- :name tasks_of_maps
SELECT awaits FROM runstep WHERE parent_step_id {among ids} AND awaits LIKE ':queue:%';

-- :name delete_signals_of_tasks
DELETE FROM signal WHERE id {among ids} AND key LIKE ':queue:%';

-- :name task_queues
SELECT name FROM taskqueue ORDER BY name;
