-- URLs to which changes of blobs are delivered, and how far.
CREATE TABLE webhooks (
    id        BLOB   NOT NULL PRIMARY KEY,
    key_group BLOB   NOT NULL, -- of the key whose rights it has; empty: none
    created   BIGINT NOT NULL,
    settings  BLOB   NOT NULL, -- in JSON
    progress  BLOB   NOT NULL  -- in JSON
) WITHOUT ROWID;
