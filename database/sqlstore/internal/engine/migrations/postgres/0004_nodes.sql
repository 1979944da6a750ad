-- expires is by the engine's clock.
CREATE TABLE leases (
    name    BYTEA  NOT NULL PRIMARY KEY,
    holder  BYTEA  NOT NULL,
    expires BIGINT NOT NULL
);

-- The write transactions of the last minutes. Each inserts its id first, so that the
-- outcome of one whose COMMIT was not answered can be looked up. Ids begin with the
-- time of their creation.
CREATE TABLE transactions (id BYTEA NOT NULL PRIMARY KEY);
