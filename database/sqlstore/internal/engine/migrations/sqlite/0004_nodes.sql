-- expires is by the engine's clock.
CREATE TABLE leases (
    name    BLOB   NOT NULL PRIMARY KEY,
    holder  BLOB   NOT NULL,
    expires BIGINT NOT NULL
) WITHOUT ROWID;
