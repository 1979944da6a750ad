-- due is when the pending payment is submitted to the chain at the latest. It is NULL
-- without a chain.
ALTER TABLE settlements ADD COLUMN due BIGINT;
CREATE INDEX settlements_due ON settlements (due) WHERE due IS NOT NULL;

-- submitted is the amount of the submission in flight, or 0. stopped says why nothing is
-- sold over the channel. Of a channel that was read from the chain, withdrawn and
-- next_sequence are what was read with the deposit and the expiry, ledger is the time of
-- the ledger of the fullnode that was read, and read_at when it was read. Without a chain
-- these two are NULL.
ALTER TABLE channels ADD COLUMN submitted BIGINT NOT NULL DEFAULT 0;
ALTER TABLE channels ADD COLUMN stopped BLOB;
ALTER TABLE channels ADD COLUMN withdrawn BIGINT NOT NULL DEFAULT 0;
ALTER TABLE channels ADD COLUMN next_sequence BIGINT NOT NULL DEFAULT 0;
ALTER TABLE channels ADD COLUMN ledger BIGINT;
ALTER TABLE channels ADD COLUMN read_at BIGINT;

-- At most one row for each channel: the newest payment that was submitted. state is 0 in
-- flight, 1 collected, 2 failed, 3 expired. body is empty unless it is in flight.
CREATE TABLE submissions (
    channel  BLOB   NOT NULL PRIMARY KEY,
    sequence BIGINT NOT NULL,
    amount   BIGINT NOT NULL,
    hash     BLOB   NOT NULL,
    body     BLOB   NOT NULL,
    expires  BIGINT NOT NULL,
    state    BIGINT NOT NULL,
    status   BLOB,
    begun    BIGINT NOT NULL,
    ended    BIGINT
) WITHOUT ROWID;
CREATE INDEX submissions_uncollected ON submissions (state, channel) WHERE state <> 1;
