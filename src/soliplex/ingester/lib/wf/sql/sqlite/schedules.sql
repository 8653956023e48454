-- SQLite has one writer at a time: to read is to hold.
-- :name hold_due_schedule
SELECT next_due_at FROM schedule WHERE id = :id AND next_due_at IS NOT NULL AND next_due_at <= :now;
