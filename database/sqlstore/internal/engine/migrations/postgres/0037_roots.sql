-- Alone: no node of an earlier version runs beside a node with this schema.
ALTER TABLE nodes RENAME COLUMN common TO joint;

-- The Merkle root of the blob's content; NULL: it is not known yet.
ALTER TABLE blobs ADD COLUMN root BYTEA;
-- What proofs of its ranges need, too: one hash, or one byte and the content's rows in the table
-- trees. NULL: it is not known yet.
ALTER TABLE blobs ADD COLUMN tree BYTEA;
CREATE INDEX blobs_treeless ON blobs (content) WHERE tree IS NULL AND size > 0;

-- The hashes above contents' samples.
CREATE TABLE trees (
    content BYTEA  NOT NULL,
    level   BIGINT NOT NULL,
    idx     BIGINT NOT NULL,
    hashes  BYTEA  NOT NULL,
    PRIMARY KEY (content, level, idx)
);
-- Hashes cannot be compressed.
ALTER TABLE trees ALTER COLUMN hashes SET STORAGE EXTERNAL;
-- Whatever deletes a content's row of garbage deletes its rows of starts and trees, too.
CREATE OR REPLACE FUNCTION drop_starts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- An array lets the planner use the key even if its statistics are old.
    DELETE FROM starts WHERE content = ANY (ARRAY(SELECT content FROM gone));
    DELETE FROM trees WHERE content = ANY (ARRAY(SELECT content FROM gone));
    RETURN NULL;
END
$$;

-- The function list_blobs also returns the column root, if the parameter with_metadata has the bit 2.
DO $$
DECLARE
    definition TEXT := pg_get_functiondef('list_blobs'::regproc);
BEGIN
    definition := replace(definition, 'version bytea, metadata', 'version bytea, root bytea, metadata');
    definition := replace(definition, 'b.version, CASE WHEN with_metadata = 1', 'b.version, CASE WHEN with_metadata >= 2 THEN b.root END, CASE WHEN with_metadata % 2 = 1');
    definition := replace(definition, 'version, metadata, text_bytes', 'version, root, metadata, text_bytes');
    DROP FUNCTION list_blobs;
    EXECUTE definition;
END
$$;
