-- What one node at a time does. expires is by the engine's clock.
CREATE TABLE leases (
    name    BLOB   NOT NULL PRIMARY KEY,
    holder  BLOB   NOT NULL,
    expires BIGINT NOT NULL
) WITHOUT ROWID;

-- The write transactions of the last minutes. Each inserts its id first, so
-- that one whose COMMIT was not answered can be asked for. Ids begin with the
-- time of their making.
-- postgres: CREATE TABLE transactions (id BYTEA NOT NULL PRIMARY KEY);
