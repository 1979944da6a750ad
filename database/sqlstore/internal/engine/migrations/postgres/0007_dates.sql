-- 0 if no earlier version of the name was modified in the same second, 1 if one may
-- have been, as for all rows of earlier versions.
ALTER TABLE blobs ADD COLUMN shared_second BIGINT NOT NULL DEFAULT 1;

-- The times of modification of blobs that were deleted soon after it, kept for some
-- minutes: the next blob of the name must be neither older nor of the same second.
CREATE TABLE deleted_blobs (
    account   BYTEA  NOT NULL,
    name_head BYTEA  NOT NULL,
    name_hash BYTEA  NOT NULL,
    modified  BIGINT NOT NULL,
    PRIMARY KEY (account, name_head, name_hash)
);
CREATE INDEX deleted_blobs_modified ON deleted_blobs (modified);
