-- URLs to which changes of blobs are delivered, and how far.
CREATE TABLE webhooks (
    id        BYTEA  NOT NULL PRIMARY KEY,
    key_group BYTEA  NOT NULL, -- of the key whose rights it has; empty: none
    created   BIGINT NOT NULL,
    settings  BYTEA  NOT NULL, -- in JSON
    progress  BYTEA  NOT NULL  -- in JSON
);
