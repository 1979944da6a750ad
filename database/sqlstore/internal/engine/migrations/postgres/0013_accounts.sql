-- What each account stores: the number of its blobs and the bytes of their contents, of
-- expired ones too. It is the sum of the row of account_sums and the rows of account_deltas.
-- Triggers keep it, so that it is exact whatever version of the program writes. They insert
-- deltas, so that concurrent writers share no row, and Purge moves these to the sums.
CREATE TABLE account_sums (
    account BYTEA  NOT NULL PRIMARY KEY,
    blobs   BIGINT NOT NULL,
    bytes   BIGINT NOT NULL
);
CREATE TABLE account_deltas (
    account BYTEA  NOT NULL,
    id      BIGINT GENERATED ALWAYS AS IDENTITY,
    blobs   BIGINT NOT NULL,
    bytes   BIGINT NOT NULL,
    PRIMARY KEY (account, id)
);

CREATE FUNCTION count_blob() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO account_deltas (account, blobs, bytes) VALUES (NEW.account, 1, NEW.size);
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO account_deltas (account, blobs, bytes) VALUES (NEW.account, 0, NEW.size - OLD.size);
    ELSE
        INSERT INTO account_deltas (account, blobs, bytes) VALUES (OLD.account, -1, -OLD.size);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER blobs_inserted AFTER INSERT ON blobs FOR EACH ROW EXECUTE FUNCTION count_blob();
CREATE TRIGGER blobs_resized AFTER UPDATE OF size ON blobs FOR EACH ROW WHEN (NEW.size <> OLD.size) EXECUTE FUNCTION count_blob();
CREATE TRIGGER blobs_deleted AFTER DELETE ON blobs FOR EACH ROW EXECUTE FUNCTION count_blob();

-- The triggers have locked the table against other writers until the end of the migration,
-- so that each blob is counted once. All rows are read, in the fastest order.
SET LOCAL enable_seqscan = on;
INSERT INTO account_sums (account, blobs, bytes) SELECT account, COUNT(*), CAST(SUM(size) AS BIGINT) FROM blobs GROUP BY account;
RESET enable_seqscan;
