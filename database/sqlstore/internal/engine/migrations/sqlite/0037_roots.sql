-- Alone: no node of an earlier version runs beside a node with this schema.
ALTER TABLE nodes RENAME COLUMN common TO joint;

-- The Merkle root of the blob's content; NULL: it is not known yet.
ALTER TABLE blobs ADD COLUMN root BLOB;
-- What proofs of its ranges need, too: one hash, or one byte and the content's rows in the table
-- trees. NULL: it is not known yet.
ALTER TABLE blobs ADD COLUMN tree BLOB;
CREATE INDEX blobs_treeless ON blobs (content) WHERE tree IS NULL AND size > 0;

-- The hashes above contents' samples. It has rowids, as bodies has.
CREATE TABLE trees (
    content BLOB   NOT NULL,
    level   BIGINT NOT NULL,
    idx     BIGINT NOT NULL,
    hashes  BLOB   NOT NULL,
    PRIMARY KEY (content, level, idx)
);
-- Whatever deletes a content's row of garbage deletes its rows of starts and trees, too.
DROP TRIGGER starts_dropped;
CREATE TRIGGER rows_dropped AFTER DELETE ON garbage BEGIN
    DELETE FROM starts WHERE content = OLD.content;
    DELETE FROM trees WHERE content = OLD.content;
END;
