-- The number of parts that an upload has.
ALTER TABLE uploads ADD COLUMN parts BIGINT NOT NULL DEFAULT 0;
UPDATE uploads SET parts = (SELECT COUNT(*) FROM parts p WHERE p.content = uploads.content);

-- Usage also counts objects, which are blobs and parts of open uploads, and the bytes
-- of the names of blobs and open uploads. All of it is computed again.
DELETE FROM usage;
DELETE FROM usage_sums;
ALTER TABLE usage ADD COLUMN objects BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN names BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_sums ADD COLUMN objects BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_sums ADD COLUMN names BIGINT NOT NULL DEFAULT 0;
INSERT INTO usage_sums (owner, bytes, uploads, objects, names)
    SELECT a.owner, CAST(SUM(a.bytes) AS BIGINT), CAST(SUM(a.uploads) AS BIGINT), CAST(SUM(a.objects) AS BIGINT), CAST(SUM(a.names) AS BIGINT)
    FROM (SELECT owner, size AS bytes, 0 AS uploads, 1 AS objects, length(name_head) + length(name_tail) AS names FROM blobs WHERE owner IS NOT NULL
        UNION ALL SELECT owner, bytes, 1, parts, length(name) FROM uploads WHERE state = 0 AND owner IS NOT NULL) a
    GROUP BY a.owner;

ALTER TABLE key_groups ADD COLUMN stored_objects BIGINT NOT NULL DEFAULT 0;
