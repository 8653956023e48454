-- A row that another is writing need not be waited for: it is in use.
-- :name use_embeddings
WITH used AS MATERIALIZED (
    SELECT text_hash FROM cachedembedding
     WHERE provider = :provider AND model = :model AND text_hash = ANY(CAST(:hashes AS text[]))
     ORDER BY text_hash
       FOR UPDATE SKIP LOCKED)
UPDATE cachedembedding AS entry SET used_at = CAST(:now AS timestamptz)
  FROM used
 WHERE entry.provider = :provider AND entry.model = :model AND entry.text_hash = used.text_hash;

-- In the order of the hashes, as everybody inserts them: so no two wait for each other in a circle. PostgreSQL counts
-- the hashes from one.
-- :name keep_embeddings
INSERT INTO cachedembedding (provider, model, text_hash, vector, used_at)
SELECT :provider, :model, hash,
       substring(CAST(:vectors AS bytea) FROM CAST(1 + (place - 1) * CAST(:width AS int) AS int) FOR CAST(:width AS int)),
       CAST(:now AS timestamptz)
  FROM unnest(CAST(:hashes AS text[])) WITH ORDINALITY AS given (hash, place)
 ORDER BY hash
    ON CONFLICT DO NOTHING;

-- SKIP LOCKED: two who drop at the same time drop different rows.
-- :name drop_oldest_embeddings
WITH oldest AS MATERIALIZED (
    SELECT provider, model, text_hash FROM cachedembedding
     ORDER BY used_at LIMIT CAST(:excess AS int)
       FOR UPDATE SKIP LOCKED)
DELETE FROM cachedembedding AS entry USING oldest
 WHERE entry.provider = oldest.provider AND entry.model = oldest.model AND entry.text_hash = oldest.text_hash;
