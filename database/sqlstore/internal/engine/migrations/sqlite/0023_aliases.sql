-- Other names for accounts, for interfaces that cannot have theirs.
CREATE TABLE aliases (
    name    BLOB NOT NULL PRIMARY KEY,
    account BLOB NOT NULL
) WITHOUT ROWID;

-- One row. Every change of the aliases sets a new random value.
CREATE TABLE aliases_version (
    version BIGINT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO aliases_version (version) VALUES (0);
