-- Locked in the order of ids: two who hold several never wait for each other.
-- :name lock_batches
SELECT id FROM documentbatch WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE;

-- Locks on a number and not on the batch's row: the engine updates that row when the batch's last group ends, holding
-- runs and groups, which whoever starts workflows takes after the batch. 1112884803 is any number, so long as all use
-- the same.
-- :name share_batch
SELECT pg_advisory_xact_lock_shared(1112884803, :batch_id);

-- As share_batch, but nobody else holds or shares it meanwhile.
-- :name hold_batch
SELECT pg_advisory_xact_lock(1112884803, :batch_id);

-- KEY SHARE: the batch cannot go while rows that refer to it are written.
-- :name find_batch
SELECT id, name, source FROM documentbatch WHERE id = :batch_id FOR KEY SHARE;

-- KEY SHARE: the batches cannot go while rows that refer to them are written.
-- :name find_batches
SELECT id FROM documentbatch WHERE id = ANY(:ids) ORDER BY id FOR KEY SHARE;
