-- :name find_embeddings
SELECT text_hash, vector, used_at < :stale AS is_stale
  FROM cachedembedding
 WHERE provider = :provider AND model = :model AND text_hash IN (SELECT value FROM json_each(:hashes));

-- :name use_embeddings
UPDATE cachedembedding SET used_at = :now
 WHERE provider = :provider AND model = :model AND text_hash IN (SELECT value FROM json_each(:hashes));

-- :name keep_embeddings
-- The vectors come in one piece, each :width bytes long: JSON holds no bytes.
INSERT INTO cachedembedding (provider, model, text_hash, vector, used_at)
SELECT :provider, :model, value, substr(:vectors, 1 + key * :width, :width), :now
  FROM json_each(:hashes)
 WHERE true
    ON CONFLICT DO NOTHING;
