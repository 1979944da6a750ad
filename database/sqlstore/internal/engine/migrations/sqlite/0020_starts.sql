-- Where each part begins of a content with parts of any size (blobs.part_size 2^46), and its bytes.
-- The rows of a content go with its row of garbage, in whatever way that is deleted.
CREATE TABLE starts (
    content BLOB   NOT NULL,
    part    BIGINT NOT NULL,
    start   BIGINT NOT NULL,
    size    BIGINT NOT NULL,
    PRIMARY KEY (content, part)
) WITHOUT ROWID;
CREATE UNIQUE INDEX starts_start ON starts (content, start);
CREATE TRIGGER starts_dropped AFTER DELETE ON garbage BEGIN
    DELETE FROM starts WHERE content = OLD.content;
END;

-- When a part was stored. Rows of earlier versions have none.
ALTER TABLE parts ADD COLUMN stored BIGINT;
