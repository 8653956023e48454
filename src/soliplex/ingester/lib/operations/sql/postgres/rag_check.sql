-- A list is an array on PostgreSQL.
-- :name living_documents
SELECT DISTINCT doc_hash FROM documenturi WHERE doc_hash = ANY(:hashes);
