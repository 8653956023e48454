-- SKIP LOCKED: another worker starts it just now.
-- :name hold_due_schedule
SELECT next_due_at FROM schedule WHERE id = :id AND next_due_at IS NOT NULL AND next_due_at <= :now FOR UPDATE SKIP LOCKED;
