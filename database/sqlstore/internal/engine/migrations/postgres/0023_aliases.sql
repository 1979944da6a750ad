-- Other names for accounts, for interfaces that cannot have theirs.
CREATE TABLE aliases (
    name    BYTEA NOT NULL PRIMARY KEY,
    account BYTEA NOT NULL
);

-- One row. Its value increases with every change of the aliases.
CREATE TABLE aliases_version (
    version BIGINT NOT NULL PRIMARY KEY
);
INSERT INTO aliases_version (version) VALUES (0);
