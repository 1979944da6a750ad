-- The nodes that run and their settings. expires is by the engine's clock.
CREATE TABLE nodes (
    id       BYTEA  NOT NULL PRIMARY KEY,
    settings BYTEA  NOT NULL,
    expires  BIGINT NOT NULL
);
