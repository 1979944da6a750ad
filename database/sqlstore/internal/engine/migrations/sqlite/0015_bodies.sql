-- To compare two keys of a table WITHOUT ROWID, SQLite reads their whole rows, and the inner
-- pages of its tree hold whole rows too. Bodies are too long for that: they get rowids, and
-- an index of their keys.
ALTER TABLE bodies RENAME TO old_bodies;
CREATE TABLE bodies (
    content BLOB   NOT NULL,
    part    BIGINT NOT NULL,
    off     BIGINT NOT NULL,
    body    BLOB   NOT NULL,
    PRIMARY KEY (content, part, off)
);
INSERT INTO bodies SELECT content, part, off, body FROM old_bodies ORDER BY content, part, off;
DROP TABLE old_bodies;
