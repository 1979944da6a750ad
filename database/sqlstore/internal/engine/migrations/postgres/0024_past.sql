-- Transactions by which a database that was set back is recognized. Those with outside = 1 are known
-- to be recorded outside the database. The newest are retained.
CREATE TABLE marks (
    sequence BIGINT NOT NULL PRIMARY KEY,
    nonce    BYTEA NOT NULL,
    outside  BIGINT NOT NULL
);

-- One row. set_back says how it was seen that the instance was set back, in lines. Objects that were
-- made before kept_before, and that nothing refers to, are kept until kept_until.
CREATE TABLE past (
    generation  BIGINT NOT NULL PRIMARY KEY,
    set_back    BYTEA,
    kept_before BIGINT,
    kept_until  BIGINT
);
INSERT INTO past (generation) VALUES (1);
