-- SQLite has one writer at a time: to read is to hold.
-- :name lock_batches
SELECT id FROM documentbatch WHERE id IN (SELECT value FROM json_each(:ids));

-- Whoever deletes URIs of a batch shares it; whoever starts its workflows has it to himself: no run is made for a
-- document that is being deleted. SQLite has one writer at a time: nothing needs to be held.
-- :name share_batch
SELECT 1 WHERE :batch_id IS NULL;

-- As share_batch: nothing needs to be held.
-- :name hold_batch
SELECT 1 WHERE :batch_id IS NULL;

-- SQLite has one writer at a time: to read is to hold.
-- :name find_batch
SELECT id, name, source FROM documentbatch WHERE id = :batch_id;

-- SQLite has one writer at a time: to read is to hold.
-- :name find_batches
SELECT id FROM documentbatch WHERE id IN (SELECT value FROM json_each(:ids));
