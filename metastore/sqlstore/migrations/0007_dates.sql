-- 0 when the second of modified was that of no earlier version of the name, 1 when
-- it may have been, as for all that was stored before.
ALTER TABLE blobs ADD COLUMN shared_second BIGINT NOT NULL DEFAULT 1;

-- When blobs were modified that were deleted soon after, for some minutes: the next
-- blob of the name must not be older, nor pass for them.
CREATE TABLE deleted_blobs (
    account   BLOB   NOT NULL,
    name_head BLOB   NOT NULL,
    name_hash BLOB   NOT NULL,
    modified  BIGINT NOT NULL,
    PRIMARY KEY (account, name_head, name_hash)
) WITHOUT ROWID;
CREATE INDEX deleted_blobs_modified ON deleted_blobs (modified);
