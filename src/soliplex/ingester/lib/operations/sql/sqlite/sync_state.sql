-- SQLite has one writer at a time: to read is to hold.
-- :name lock_sync_state
SELECT branch, CAST(sync_metadata AS text) AS sync_metadata FROM syncstate WHERE source_id = :source_id;
