-- :name contents_of_places
SELECT DISTINCT h.hash, u.uri, u.source, u.batch_id
  FROM documenturihistory h
  LEFT JOIN documenturi u ON u.id = (SELECT max(p.id) FROM documenturi p WHERE p.doc_hash = h.hash)
 WHERE h.doc_uri_id = ANY(:uri_ids);
