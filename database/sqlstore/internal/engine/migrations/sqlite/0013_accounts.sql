-- What each account stores: the number of its blobs and the bytes of their contents, of
-- expired ones too. It is the sum of the row of account_sums and the rows of account_deltas.
-- Triggers keep it, so that it is exact whatever version of the program writes. SQLite has
-- one writer, and therefore its triggers change the sums. They insert no deltas.
CREATE TABLE account_sums (
    account BLOB   NOT NULL PRIMARY KEY,
    blobs   BIGINT NOT NULL,
    bytes   BIGINT NOT NULL
) WITHOUT ROWID;
CREATE TABLE account_deltas (
    account BLOB   NOT NULL,
    id      BIGINT NOT NULL,
    blobs   BIGINT NOT NULL,
    bytes   BIGINT NOT NULL,
    PRIMARY KEY (account, id)
) WITHOUT ROWID;

CREATE TRIGGER blobs_inserted AFTER INSERT ON blobs BEGIN
    INSERT INTO account_sums (account, blobs, bytes) VALUES (NEW.account, 1, NEW.size)
        ON CONFLICT (account) DO UPDATE SET blobs = blobs + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER blobs_resized AFTER UPDATE OF size ON blobs WHEN NEW.size <> OLD.size BEGIN
    UPDATE account_sums SET bytes = bytes + NEW.size - OLD.size WHERE account = NEW.account;
END;
CREATE TRIGGER blobs_deleted AFTER DELETE ON blobs BEGIN
    UPDATE account_sums SET blobs = blobs - 1, bytes = bytes - OLD.size WHERE account = OLD.account;
    DELETE FROM account_sums WHERE account = OLD.account AND blobs = 0 AND bytes = 0;
END;

INSERT INTO account_sums (account, blobs, bytes) SELECT account, COUNT(*), SUM(size) FROM blobs GROUP BY account;
