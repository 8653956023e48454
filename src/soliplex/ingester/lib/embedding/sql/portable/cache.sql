-- :name count_embeddings
SELECT count(*) AS entries FROM cachedembedding;

-- :name drop_oldest_embeddings
DELETE FROM cachedembedding
 WHERE (provider, model, text_hash) IN (
       SELECT provider, model, text_hash FROM cachedembedding ORDER BY used_at LIMIT :excess);
