-- The nodes that run and their settings. expires is by the engine's clock.
CREATE TABLE nodes (
    id       BLOB   NOT NULL PRIMARY KEY,
    settings BLOB   NOT NULL,
    expires  BIGINT NOT NULL
) WITHOUT ROWID;
