-- Limits are shared by the keys of a group: 0 is the default of the service, -1
-- is none.
CREATE TABLE key_groups (
    name                 BLOB   NOT NULL PRIMARY KEY,
    requests_per_second  BIGINT NOT NULL,
    bytes_in_per_second  BIGINT NOT NULL,
    bytes_out_per_second BIGINT NOT NULL,
    concurrent_requests  BIGINT NOT NULL,
    stored_bytes         BIGINT NOT NULL,
    open_uploads         BIGINT NOT NULL
) WITHOUT ROWID;

-- scopes and accounts are JSON lists of strings in base64, because they are
-- bytes too. accounts is NULL for all of them.
CREATE TABLE api_keys (
    id        BLOB   NOT NULL PRIMARY KEY,
    hash      BLOB   NOT NULL,
    label     BLOB   NOT NULL,
    scopes    BLOB,
    accounts  BLOB,
    key_group BLOB   NOT NULL,
    created   BIGINT NOT NULL,
    expires   BIGINT,
    revoked   BIGINT
) WITHOUT ROWID;

-- One row, which grows with every change of the keys.
CREATE TABLE keys_version (
    version BIGINT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO keys_version (version) VALUES (0);

-- NULL is nobody, as for all that was stored before.
ALTER TABLE blobs ADD COLUMN owner BLOB;
ALTER TABLE uploads ADD COLUMN owner BLOB;

-- Differences: an owner takes up the sum of his rows. They are added and, many
-- at a time, made one, but never changed. id is there to tell them apart, and
-- begins with the time, so that they are added at the owner's end.
CREATE TABLE usage (
    owner   BLOB   NOT NULL,
    id      BLOB   NOT NULL,
    bytes   BIGINT NOT NULL,
    uploads BIGINT NOT NULL,
    PRIMARY KEY (owner, id)
) WITHOUT ROWID;
