-- SQLite has one writer at a time: no row needs a lock.
-- :name drop_oldest_embeddings
DELETE FROM cachedembedding
 WHERE (provider, model, text_hash) IN (
       SELECT provider, model, text_hash FROM cachedembedding ORDER BY used_at LIMIT :excess);

-- SQLite has one writer at a time: no row needs a lock.
-- :name use_embeddings
UPDATE cachedembedding SET used_at = :now
 WHERE provider = :provider AND model = :model AND text_hash IN (SELECT value FROM json_each(:hashes));

-- The vectors come in one piece, each :width bytes long: JSON holds no bytes. SQLite counts the hashes from zero. WHERE
-- true keeps it from reading ON as the condition of a join.
-- :name keep_embeddings
INSERT INTO cachedembedding (provider, model, text_hash, vector, used_at)
SELECT :provider, :model, value, substr(:vectors, 1 + key * :width, :width), :now
  FROM json_each(:hashes)
 WHERE true
    ON CONFLICT DO NOTHING;
