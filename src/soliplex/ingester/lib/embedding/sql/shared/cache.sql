-- :name count_embeddings
SELECT count(*) AS entries FROM cachedembedding;

-- :name find_embeddings
SELECT text_hash, vector, used_at < {moment stale} AS is_stale
  FROM cachedembedding
 WHERE provider = :provider AND model = :model AND text_hash {among hashes};
