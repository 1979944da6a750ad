-- The usage of an owner is the sum of its row here and its rows of usage. Purge moves
-- rows of usage here.
CREATE TABLE usage_sums (
    owner   BLOB   NOT NULL PRIMARY KEY,
    bytes   BIGINT NOT NULL,
    uploads BIGINT NOT NULL
) WITHOUT ROWID;

-- The sum of count times price of the sales that were folded, whose rows are deleted.
ALTER TABLE channels ADD COLUMN folded BIGINT NOT NULL DEFAULT 0;

-- Sales get ids. A sale to a session is folded when the session is purged, any other
-- one by its age.
DROP INDEX sales_payment;
ALTER TABLE sales RENAME TO old_sales;
CREATE TABLE sales (
    id       BLOB   NOT NULL PRIMARY KEY,
    channel  BLOB   NOT NULL,
    sequence BIGINT,
    session  BLOB,
    count    BIGINT NOT NULL,
    price    BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    charge   BLOB
) WITHOUT ROWID;
INSERT INTO sales SELECT CAST(printf('%032x', rowid) AS BLOB), channel, sequence, session, count, price, at, charge FROM old_sales;
DROP TABLE old_sales;
UPDATE sales SET session = NULL WHERE session IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = sales.session);
-- A payment sells at most once. Returns have no sequence.
CREATE UNIQUE INDEX sales_payment ON sales (channel, sequence);
CREATE INDEX sales_session ON sales (session) WHERE session IS NOT NULL;
CREATE INDEX sales_at ON sales (at) WHERE session IS NULL;

-- Amounts are cumulative, so that the last payout of a channel suffices.
DELETE FROM ledger WHERE EXISTS
    (SELECT 1 FROM ledger n WHERE n.channel = ledger.channel AND n.sequence > ledger.sequence AND n.amount > ledger.amount);
