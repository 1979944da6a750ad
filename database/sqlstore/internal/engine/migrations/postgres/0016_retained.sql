-- What an owner occupies beyond what is stored: garbage, the outcomes of uploads, and recorded
-- requests. charge is what a row counts, in bytes. Rows of earlier versions count nothing.
ALTER TABLE garbage ADD COLUMN owner BYTEA;
ALTER TABLE garbage ADD COLUMN charge BIGINT NOT NULL DEFAULT 0;
ALTER TABLE uploads ADD COLUMN charge BIGINT NOT NULL DEFAULT 0;
ALTER TABLE idempotency ADD COLUMN owner BYTEA;
ALTER TABLE idempotency ADD COLUMN charge BIGINT NOT NULL DEFAULT 0;
ALTER TABLE key_groups ADD COLUMN occupied_bytes BIGINT NOT NULL DEFAULT 0;

-- Ended uploads whose parts still have rows.
CREATE INDEX uploads_ended_parts ON uploads (ended) WHERE ended IS NOT NULL AND parts > 0;

-- The sum of the charges of an owner is that of its row here and of its rows of usage. Whoever
-- inserts a row with a charge adds it to usage. Triggers subtract the charges of rows that are
-- deleted, and move retained from rows of usage that are deleted to the sums, so that the sum
-- is exact whatever version of the program deletes them. Only the latter, of which one runs at
-- a time, change the sums, so that concurrent writers share no row.
ALTER TABLE usage ADD COLUMN retained BIGINT NOT NULL DEFAULT 0;
CREATE TABLE retained_sums (
    owner    BYTEA  NOT NULL PRIMARY KEY,
    retained BIGINT NOT NULL
);

CREATE FUNCTION release_charges() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The id begins with the time in milliseconds, like those of the program.
    INSERT INTO usage (owner, id, bytes, uploads, retained)
        SELECT owner, substr(int8send(CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)), 3)
                || substr(uuid_send(gen_random_uuid()), 1, 10),
            0, 0, -CAST(SUM(charge) AS BIGINT)
        FROM gone WHERE owner IS NOT NULL GROUP BY owner HAVING SUM(charge) <> 0;
    RETURN NULL;
END
$$;
CREATE TRIGGER garbage_deleted AFTER DELETE ON garbage REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION release_charges();
CREATE TRIGGER uploads_deleted AFTER DELETE ON uploads REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION release_charges();
CREATE TRIGGER idempotency_deleted AFTER DELETE ON idempotency REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION release_charges();

CREATE FUNCTION sum_retained() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO retained_sums (owner, retained)
        SELECT owner, CAST(SUM(retained) AS BIGINT) FROM gone GROUP BY owner HAVING SUM(retained) <> 0 ORDER BY owner
        ON CONFLICT (owner) DO UPDATE SET retained = retained_sums.retained + excluded.retained;
    DELETE FROM retained_sums WHERE retained = 0 AND owner IN (SELECT owner FROM gone);
    RETURN NULL;
END
$$;
CREATE TRIGGER usage_deleted AFTER DELETE ON usage REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION sum_retained();
