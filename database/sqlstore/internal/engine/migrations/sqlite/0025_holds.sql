-- Backups that are being made. Contents that become garbage from since on are kept until a time.
CREATE TABLE holds (
    id         BLOB NOT NULL PRIMARY KEY,
    since      BIGINT NOT NULL,
    held_until BIGINT NOT NULL
) WITHOUT ROWID;
