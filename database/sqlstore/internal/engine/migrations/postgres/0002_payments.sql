-- Amounts are in units of the asset, from 0 to 2^63-1. proof is NULL until a payment
-- has been accepted.
ALTER TABLE channels ADD COLUMN accepted BIGINT NOT NULL DEFAULT 0;
ALTER TABLE channels ADD COLUMN sequence BIGINT NOT NULL DEFAULT 0;
ALTER TABLE channels ADD COLUMN proof BYTEA;
ALTER TABLE channels ADD COLUMN credit BIGINT NOT NULL DEFAULT 0;
ALTER TABLE channels ADD COLUMN settled BIGINT NOT NULL DEFAULT 0;
ALTER TABLE channels ADD COLUMN closed BIGINT;

-- channel is NULL if the session was granted.
ALTER TABLE sessions ADD COLUMN channel BYTEA;
ALTER TABLE sessions ADD COLUMN used BIGINT NOT NULL DEFAULT 0 CHECK (used >= 0);
UPDATE sessions SET used = total - remaining;
CREATE INDEX sessions_channel ON sessions (channel, created, id) WHERE channel IS NOT NULL;

-- Rows are inserted and never updated. A sale has the sequence of its payment and its
-- session, which is NULL if the chunksets were read directly. A return to the credit
-- has a negative count and neither of them.
CREATE TABLE sales (
    channel  BYTEA  NOT NULL,
    sequence BIGINT,
    session  BYTEA,
    count    BIGINT NOT NULL,
    price    BIGINT NOT NULL,
    at       BIGINT NOT NULL
);
-- A payment sells at most once.
CREATE UNIQUE INDEX sales_payment ON sales (channel, sequence) WHERE sequence IS NOT NULL;

-- At most one row for each channel: the newest accepted payment until it is collected.
CREATE TABLE settlements (
    channel  BYTEA  NOT NULL PRIMARY KEY,
    sequence BIGINT NOT NULL,
    amount   BIGINT NOT NULL,
    proof    BYTEA  NOT NULL,
    expires  BIGINT NOT NULL
);
CREATE INDEX settlements_expires ON settlements (expires);

-- Payouts of the embedded ledger.
CREATE TABLE ledger (
    channel  BYTEA  NOT NULL,
    sequence BIGINT NOT NULL,
    amount   BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    PRIMARY KEY (channel, sequence)
);
