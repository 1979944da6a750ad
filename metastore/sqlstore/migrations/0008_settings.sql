-- The nodes that run, and the settings that they run with. expires is by the
-- engine's clock.
CREATE TABLE nodes (
    id       BLOB   NOT NULL PRIMARY KEY,
    settings BLOB   NOT NULL,
    expires  BIGINT NOT NULL
) WITHOUT ROWID;
