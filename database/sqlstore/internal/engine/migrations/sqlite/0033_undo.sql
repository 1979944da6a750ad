-- Alone: no node of an earlier version runs beside a node with this schema.
ALTER TABLE nodes RENAME COLUMN agreed TO shared;

-- Versions of blobs. One that is not current is a row of blobs in the account ~~ACCOUNT, under the
-- name NAME, a zero byte and its time in 22 bytes from 0xf8 to 0xff, so that a name's newest version
-- comes first. Such a row's expires is when it goes.

-- Members of a version in JSON: versioned, mark, by, since (in microseconds, when it ceased to be
-- current), expires (the blob's own, when since is there), lock (mode, until by the clock of locks,
-- hold) and kept (when a locked version would go). NULL: none.
-- The column expires of a version that is not current is 2^62 more than the end of its retention by
-- the clock of locks, while it has one; with a legal hold it is NULL.
ALTER TABLE blobs ADD COLUMN version BLOB;
CREATE INDEX blobs_kept ON blobs (expires) WHERE expires IS NOT NULL AND account >= x'7e7e';
DROP INDEX blobs_expires;
CREATE INDEX blobs_expires ON blobs (expires) WHERE expires IS NOT NULL AND account < x'7e7e';
-- The version of a name that is not current and not versioned: its members do not begin so.
CREATE INDEX blobs_null ON blobs (account, name_head, name_hash) WHERE account >= x'7e7e' AND substr(version, 1, 12) <> x'7b2276657273696f6e656422';
-- The same for the blob that an upload becomes.
ALTER TABLE uploads ADD COLUMN version BLOB;

-- Accounts that keep versions, or once did.
CREATE TABLE keeping (
    account  BLOB   NOT NULL PRIMARY KEY,
    state    BIGINT NOT NULL, -- 1 on, 2 off, 3 on with locks
    period   BIGINT NOT NULL, -- for which a version is kept, in microseconds; 0: without limit
    most     BIGINT NOT NULL, -- versions that a name keeps; 0: any number
    changed  BIGINT NOT NULL,
    progress BLOB,            -- in JSON: up to where versions have the setting; NULL: all have
    handled  BIGINT NOT NULL, -- versions since the change
    locks    BLOB            -- in JSON: mode, for and most, in nanoseconds; NULL: there are none
) WITHOUT ROWID;
CREATE INDEX keeping_progress ON keeping (changed) WHERE progress IS NOT NULL;

-- Rules by which accounts' blobs, versions and uploads are removed.
CREATE TABLE rules (
    account  BLOB   NOT NULL PRIMARY KEY,
    rules    BLOB   NOT NULL, -- in JSON, as the next two
    changed  BIGINT NOT NULL,
    due      BIGINT NOT NULL, -- when the next run begins, unless progress is there
    progress BLOB,            -- of a run; NULL: none is in progress
    last     BLOB             -- the last run that has ended; NULL: none has
);
CREATE INDEX rules_due ON rules (due);

-- Why a task is paused, unless an operator has paused it.
ALTER TABLE tasks ADD COLUMN reason BLOB;
