-- The limits that the keys of a group share. 0 is the default of the service, -1 is
-- unlimited.
CREATE TABLE key_groups (
    name                 BYTEA  NOT NULL PRIMARY KEY,
    requests_per_second  BIGINT NOT NULL,
    bytes_in_per_second  BIGINT NOT NULL,
    bytes_out_per_second BIGINT NOT NULL,
    concurrent_requests  BIGINT NOT NULL,
    stored_bytes         BIGINT NOT NULL,
    open_uploads         BIGINT NOT NULL
);

-- scopes and accounts are JSON arrays of base64 strings, because their entries are
-- bytes. accounts is NULL for all accounts.
CREATE TABLE api_keys (
    id        BYTEA  NOT NULL PRIMARY KEY,
    hash      BYTEA  NOT NULL,
    label     BYTEA  NOT NULL,
    scopes    BYTEA,
    accounts  BYTEA,
    key_group BYTEA  NOT NULL,
    created   BIGINT NOT NULL,
    expires   BIGINT,
    revoked   BIGINT
);

-- One row. Its value increases with every change of the keys.
CREATE TABLE keys_version (
    version BIGINT NOT NULL PRIMARY KEY
);
INSERT INTO keys_version (version) VALUES (0);

-- NULL: the row counts towards no owner, as do all rows of earlier versions.
ALTER TABLE blobs ADD COLUMN owner BYTEA;
ALTER TABLE uploads ADD COLUMN owner BYTEA;

-- Differences: the usage of an owner is the sum of its rows. Rows are inserted and
-- later replaced by their sum, but never updated. id makes them unique and begins with
-- the time, so that rows are appended to those of the owner.
CREATE TABLE usage (
    owner   BYTEA  NOT NULL,
    id      BYTEA  NOT NULL,
    bytes   BIGINT NOT NULL,
    uploads BIGINT NOT NULL,
    PRIMARY KEY (owner, id)
);
