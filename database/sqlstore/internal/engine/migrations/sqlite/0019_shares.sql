-- A content that several blobs have. refs is the number of the rows of blobs whose shared is their
-- content; shared is NULL, or another content, in the rows of all other contents. A blob's row and
-- its content's row change in one transaction.
CREATE TABLE shares (
    content BLOB   NOT NULL PRIMARY KEY,
    refs    BIGINT NOT NULL CHECK (refs > 0)
) WITHOUT ROWID;
ALTER TABLE blobs ADD COLUMN shared BLOB;
