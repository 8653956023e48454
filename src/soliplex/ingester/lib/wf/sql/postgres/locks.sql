-- :name refresh_locks_of_leases
UPDATE resourcelock SET expires_at = :expires_at WHERE holder_id = ANY(:leases) RETURNING holder_id;
