-- SQLite has one writer at a time.
-- :name hold_definitions
SELECT 1;
