-- Alone: no node of an earlier version runs beside a node with this schema.
ALTER TABLE nodes RENAME COLUMN shared TO common;

-- Changes of blobs, in the order of their commits. A row has consecutive changes, the last of them
-- with the number last. The newest row always stays, so that no number is used again.
CREATE TABLE changes (
    last    INTEGER NOT NULL PRIMARY KEY,
    at      BIGINT  NOT NULL, -- the time of the last one
    packed  BLOB    NOT NULL, -- each with its length before it; a length of 0: it was removed early
    row_sum BIGINT  NOT NULL  -- of the other columns
);
-- One row. Changes up to counted are in change_owners, those up to purged were removed by age, and
-- evicted were removed early.
CREATE TABLE changes_state (
    one     BIGINT NOT NULL PRIMARY KEY,
    counted BIGINT NOT NULL,
    purged  BIGINT NOT NULL,
    evicted BIGINT NOT NULL
) WITHOUT ROWID;
INSERT INTO changes_state (one, counted, purged, evicted) VALUES (0, 0, 0, 0);
-- The number and the bytes of each owner's changes, and up to where its oldest ones were removed.
CREATE TABLE change_owners (
    owner   BLOB   NOT NULL PRIMARY KEY, -- empty: none
    changes BIGINT NOT NULL,
    bytes   BIGINT NOT NULL,
    looked  BIGINT NOT NULL
) WITHOUT ROWID;
-- Accounts with changes that were removed early: up to the number floor.
CREATE TABLE change_floors (
    account BLOB   NOT NULL PRIMARY KEY,
    floor   BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX change_floors_floor ON change_floors (floor);
