-- :name last_definition
SELECT coalesce(max(id), 0) AS id FROM definition;

-- Definitions that every process must know, in the order of ids, since a later one replaces an earlier one.
-- :name definitions_known_to_all
SELECT id, kind, slug, version, content FROM definition
 WHERE (kind = 'params' OR has_events) AND id > :after AND id <= :up_to AND NOT is_draft
 ORDER BY id;

-- :name definitions_by_id
SELECT id, slug, version, content FROM definition WHERE id {among ids};

-- :name newest_definition
SELECT id, version, hash, content, has_events FROM definition
 WHERE kind = :kind AND slug = :slug AND NOT is_draft
 ORDER BY version DESC LIMIT 1;

-- The newest of the versions that have this content.
-- :name definition_by_hash
SELECT id, version FROM definition
 WHERE kind = :kind AND slug = :slug AND hash = :hash AND content IS NOT NULL AND NOT is_draft
 ORDER BY version DESC LIMIT 1;

-- :name insert_definition
INSERT INTO definition (kind, slug, version, hash, content, is_draft, has_events, created_date)
VALUES (:kind, :slug, :version, :hash, :content, :is_draft, :has_events, :now)
RETURNING id, version;

-- :name last_version
SELECT coalesce(max(version), 0) AS version FROM definition WHERE kind = :kind AND slug = :slug;

-- :name versions_of_definition
SELECT id, version, hash, content IS NULL AS is_deleted, is_draft, created_date FROM definition
 WHERE kind = :kind AND slug = :slug ORDER BY version;

-- The newest version of each workflow that is not deleted.
-- :name stored_workflows
SELECT d.id, d.slug, d.version, d.content FROM definition d
 WHERE d.kind = 'workflow' AND d.content IS NOT NULL AND NOT d.is_draft
   AND NOT EXISTS (SELECT 1 FROM definition later WHERE later.kind = 'workflow' AND later.slug = d.slug
                      AND later.version > d.version AND NOT later.is_draft)
 ORDER BY d.slug LIMIT :limit;

-- :name slugs_of_stored_workflows
SELECT d.slug FROM definition d
 WHERE d.kind = 'workflow' AND d.content IS NOT NULL AND NOT d.is_draft
   AND NOT EXISTS (SELECT 1 FROM definition later WHERE later.kind = 'workflow' AND later.slug = d.slug
                      AND later.version > d.version AND NOT later.is_draft)
 ORDER BY d.slug LIMIT :limit;

-- :name newest_with_drafts
SELECT id, version, content, is_draft, has_events FROM definition
 WHERE kind = :kind AND slug = :slug ORDER BY version DESC LIMIT 1;

-- :name newest_of_all
SELECT d.id, d.slug, d.version, d.content, d.is_draft FROM definition d
 WHERE d.kind = 'workflow' AND d.content IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM definition later WHERE later.kind = 'workflow' AND later.slug = d.slug
                      AND later.version > d.version)
 ORDER BY d.slug LIMIT :limit;
