-- The limits that the keys of a group share. 0 is the default of the service, -1 is
-- unlimited.
CREATE TABLE key_groups (
    name                 BLOB   NOT NULL PRIMARY KEY,
    requests_per_second  BIGINT NOT NULL,
    bytes_in_per_second  BIGINT NOT NULL,
    bytes_out_per_second BIGINT NOT NULL,
    concurrent_requests  BIGINT NOT NULL,
    stored_bytes         BIGINT NOT NULL,
    open_uploads         BIGINT NOT NULL
) WITHOUT ROWID;

-- scopes and accounts are JSON arrays of base64 strings, because their entries are
-- bytes. accounts is NULL for all accounts.
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

-- One row. Its value increases with every change of the keys.
CREATE TABLE keys_version (
    version BIGINT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO keys_version (version) VALUES (0);

-- NULL: the row counts towards no owner, as do all rows of earlier versions.
ALTER TABLE blobs ADD COLUMN owner BLOB;
ALTER TABLE uploads ADD COLUMN owner BLOB;

-- Differences: the usage of an owner is the sum of its rows. Rows are inserted and
-- later replaced by their sum, but never updated. id makes them unique and begins with
-- the time, so that rows are appended to those of the owner.
CREATE TABLE usage (
    owner   BLOB   NOT NULL,
    id      BLOB   NOT NULL,
    bytes   BIGINT NOT NULL,
    uploads BIGINT NOT NULL,
    PRIMARY KEY (owner, id)
) WITHOUT ROWID;
