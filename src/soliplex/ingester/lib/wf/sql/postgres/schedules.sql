-- SKIP LOCKED: a schedule that another worker is starting is left to it.
-- :name hold_due_schedule
SELECT next_due_at FROM schedule WHERE id = :id AND next_due_at IS NOT NULL AND next_due_at <= :now FOR UPDATE SKIP LOCKED;
