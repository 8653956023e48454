-- Held until the end of the transaction: no two update the state at once.
-- :name lock_sync_state
SELECT branch, CAST(sync_metadata AS text) AS sync_metadata FROM syncstate WHERE source_id = :source_id FOR UPDATE;
