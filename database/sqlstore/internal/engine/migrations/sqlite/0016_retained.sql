-- What an owner occupies beyond what is stored: garbage, the outcomes of uploads, and recorded
-- requests. charge is what a row counts, in bytes. Rows of earlier versions count nothing.
ALTER TABLE garbage ADD COLUMN owner BLOB;
ALTER TABLE garbage ADD COLUMN charge BIGINT NOT NULL DEFAULT 0;
ALTER TABLE uploads ADD COLUMN charge BIGINT NOT NULL DEFAULT 0;
ALTER TABLE idempotency ADD COLUMN owner BLOB;
ALTER TABLE idempotency ADD COLUMN charge BIGINT NOT NULL DEFAULT 0;
ALTER TABLE key_groups ADD COLUMN occupied_bytes BIGINT NOT NULL DEFAULT 0;

-- Ended uploads whose parts still have rows.
CREATE INDEX uploads_ended_parts ON uploads (ended) WHERE ended IS NOT NULL AND parts > 0;

-- The sum of the charges of an owner is that of its row here and of its rows of usage. Whoever
-- inserts a row with a charge adds it to usage. Triggers subtract the charge of a row that is
-- deleted, and move retained from a row of usage that is deleted to the sums, so that the sum
-- is exact whatever version of the program deletes them.
ALTER TABLE usage ADD COLUMN retained BIGINT NOT NULL DEFAULT 0;
CREATE TABLE retained_sums (
    owner    BLOB   NOT NULL PRIMARY KEY,
    retained BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TRIGGER garbage_deleted AFTER DELETE ON garbage WHEN OLD.owner IS NOT NULL AND OLD.charge <> 0 BEGIN
    INSERT INTO retained_sums (owner, retained) VALUES (OLD.owner, -OLD.charge)
        ON CONFLICT (owner) DO UPDATE SET retained = retained + excluded.retained;
    DELETE FROM retained_sums WHERE owner = OLD.owner AND retained = 0;
END;
CREATE TRIGGER uploads_deleted AFTER DELETE ON uploads WHEN OLD.owner IS NOT NULL AND OLD.charge <> 0 BEGIN
    INSERT INTO retained_sums (owner, retained) VALUES (OLD.owner, -OLD.charge)
        ON CONFLICT (owner) DO UPDATE SET retained = retained + excluded.retained;
    DELETE FROM retained_sums WHERE owner = OLD.owner AND retained = 0;
END;
CREATE TRIGGER idempotency_deleted AFTER DELETE ON idempotency WHEN OLD.owner IS NOT NULL AND OLD.charge <> 0 BEGIN
    INSERT INTO retained_sums (owner, retained) VALUES (OLD.owner, -OLD.charge)
        ON CONFLICT (owner) DO UPDATE SET retained = retained + excluded.retained;
    DELETE FROM retained_sums WHERE owner = OLD.owner AND retained = 0;
END;
CREATE TRIGGER usage_deleted AFTER DELETE ON usage WHEN OLD.retained <> 0 BEGIN
    INSERT INTO retained_sums (owner, retained) VALUES (OLD.owner, OLD.retained)
        ON CONFLICT (owner) DO UPDATE SET retained = retained + excluded.retained;
    DELETE FROM retained_sums WHERE owner = OLD.owner AND retained = 0;
END;
