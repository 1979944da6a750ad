-- Other names for accounts, for interfaces that cannot have theirs.
CREATE TABLE aliases (
    name    BYTEA NOT NULL PRIMARY KEY,
    account BYTEA NOT NULL
);

-- One row. Every change of the aliases sets a new random value.
CREATE TABLE aliases_version (
    version BIGINT NOT NULL PRIMARY KEY
);
INSERT INTO aliases_version (version) VALUES (0);
