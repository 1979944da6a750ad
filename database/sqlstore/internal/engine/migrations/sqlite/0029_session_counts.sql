-- What is left of a session and what was used are in rows of their own, of which a page has many
-- more: a transaction with uses of many sessions changes fewer pages. sessions is a view with the
-- columns that it has on PostgreSQL, of which these two are -1 if the counts are missing.
ALTER TABLE sessions RENAME TO earlier_sessions;
DROP INDEX sessions_expires;
DROP INDEX sessions_channel;

CREATE TABLE session_terms (
    id            BLOB    NOT NULL PRIMARY KEY,
    counts        INTEGER NOT NULL,
    user_identity BLOB    NOT NULL,
    total         BIGINT  NOT NULL,
    created       BIGINT  NOT NULL,
    expires       BIGINT  NOT NULL,
    channel       BLOB,
    charges       BLOB,
    row_sum       BIGINT
) WITHOUT ROWID;
CREATE TABLE session_counts (
    n         INTEGER NOT NULL PRIMARY KEY,
    remaining BIGINT  NOT NULL CHECK (remaining >= 0),
    used      BIGINT  NOT NULL CHECK (used >= 0)
);

INSERT INTO session_terms (id, counts, user_identity, total, created, expires, channel, charges, row_sum)
    SELECT id, ROW_NUMBER() OVER (ORDER BY id), user_identity, total, created, expires, channel, charges, row_sum FROM earlier_sessions ORDER BY id;
INSERT INTO session_counts (n, remaining, used)
    SELECT ROW_NUMBER() OVER (ORDER BY id), remaining, used FROM earlier_sessions ORDER BY id;
DROP TABLE earlier_sessions;
CREATE UNIQUE INDEX session_terms_counts ON session_terms (counts);
CREATE INDEX session_terms_expires ON session_terms (expires);
CREATE INDEX session_terms_channel ON session_terms (channel, created, id) WHERE channel IS NOT NULL;

CREATE TRIGGER session_terms_insert AFTER INSERT ON session_terms BEGIN
    INSERT INTO session_counts (n, remaining, used) VALUES (NEW.counts, NEW.total, 0);
END;
CREATE TRIGGER session_terms_delete AFTER DELETE ON session_terms BEGIN
    DELETE FROM session_counts WHERE n = OLD.counts;
END;

CREATE VIEW sessions AS
    SELECT t.id, t.user_identity, t.total, COALESCE(c.remaining, -1) AS remaining, t.created, t.expires,
        t.channel, COALESCE(c.used, -1) AS used, t.charges, t.row_sum
    FROM session_terms t LEFT JOIN session_counts c ON c.n = t.counts;
CREATE TRIGGER sessions_insert INSTEAD OF INSERT ON sessions BEGIN
    INSERT INTO session_terms (id, counts, user_identity, total, created, expires, channel, charges, row_sum)
        VALUES (NEW.id, (SELECT COALESCE(MAX(n), 0) + 1 FROM session_counts), NEW.user_identity, NEW.total, NEW.created, NEW.expires,
            NEW.channel, NEW.charges, NEW.row_sum);
    UPDATE session_counts SET remaining = NEW.remaining, used = COALESCE(NEW.used, 0)
        WHERE n = (SELECT counts FROM session_terms WHERE id = NEW.id);
END;
CREATE TRIGGER sessions_use INSTEAD OF UPDATE OF remaining, used ON sessions BEGIN
    UPDATE session_counts SET remaining = NEW.remaining, used = NEW.used
        WHERE n = (SELECT counts FROM session_terms WHERE id = OLD.id);
END;
CREATE TRIGGER sessions_change INSTEAD OF UPDATE OF id, user_identity, total, created, expires, channel, charges, row_sum ON sessions BEGIN
    UPDATE session_terms SET id = NEW.id, user_identity = NEW.user_identity, total = NEW.total, created = NEW.created,
        expires = NEW.expires, channel = NEW.channel, charges = NEW.charges, row_sum = NEW.row_sum WHERE id = OLD.id;
END;
CREATE TRIGGER sessions_delete INSTEAD OF DELETE ON sessions BEGIN
    DELETE FROM session_terms WHERE id = OLD.id;
END;
