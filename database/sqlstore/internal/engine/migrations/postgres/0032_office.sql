-- Alone: no node of an earlier version runs beside a node with this schema.

-- Grants of keys, in JSON. A key had one, of all names.
ALTER TABLE api_keys RENAME COLUMN scopes TO grants;
UPDATE api_keys SET grants = convert_to('[{"scopes":' || convert_from(grants, 'UTF8') || ',"accounts":' || COALESCE(convert_from(accounts, 'UTF8'), 'null') || '}]', 'UTF8') WHERE grants IS NOT NULL;
ALTER TABLE api_keys DROP COLUMN accounts;
UPDATE keys_version SET version = -1 - version;

-- Nodes of earlier versions cannot join any more.
ALTER TABLE nodes RENAME COLUMN settings TO agreed;

-- Actions of administrators. An id begins with the action's time, in microseconds and hexadecimal.
CREATE TABLE actions (
    id        BYTEA NOT NULL PRIMARY KEY,
    key_id    BYTEA NOT NULL, -- empty: the operator at the database
    key_group BYTEA NOT NULL,
    source    BYTEA NOT NULL,
    name      BYTEA NOT NULL,
    subject   BYTEA NOT NULL,
    accounts  BYTEA,          -- in JSON; NULL: it concerns others, too
    was       BYTEA,          -- in JSON, as is the next; NULL: nothing
    became    BYTEA
);

-- For bounds of each group.
CREATE INDEX actions_group ON actions (key_group, id);
CREATE INDEX api_keys_group ON api_keys (key_group);

-- Nodes and background tasks for operators. reason is why a node is not ready; NULL: it is ready.
ALTER TABLE nodes ADD COLUMN name BYTEA;
ALTER TABLE nodes ADD COLUMN version BYTEA;
ALTER TABLE nodes ADD COLUMN reason BYTEA;
ALTER TABLE nodes ADD COLUMN since BIGINT;
ALTER TABLE nodes ADD COLUMN leads BIGINT NOT NULL DEFAULT 0;

-- Operators write paused (since when) and wanted (when the start was requested that no run has
-- served yet), which the leader obeys. It writes the rest; from began on, of the last run.
CREATE TABLE tasks (
    name    BYTEA NOT NULL PRIMARY KEY,
    paused  BIGINT,
    wanted  BIGINT,
    running BIGINT,
    due     BIGINT,
    began   BIGINT,
    took    BIGINT NOT NULL DEFAULT 0, -- nanoseconds
    handled BIGINT NOT NULL DEFAULT 0,
    error   BYTEA,
    node    BYTEA
);

-- Settings of places.

-- name is a prefix of blobs' names, or if exact is 1 a blob's name. A place without settings has mark
-- 0, and remains for nodes that have yet to see the change. number is the version that set the row.
CREATE TABLE places (
    account        BYTEA  NOT NULL,
    name           BYTEA  NOT NULL,
    exact          BIGINT NOT NULL,
    reads          BYTEA  NOT NULL,
    lists          BYTEA  NOT NULL,
    may_open       BIGINT NOT NULL,
    guard          BIGINT NOT NULL,
    blocked_since  BIGINT,                 -- NULL: not blocked
    blocked_reason BYTEA  NOT NULL,
    blocked_by     BYTEA  NOT NULL,
    mark           BIGINT NOT NULL,
    number         BIGINT NOT NULL,
    PRIMARY KEY (account, name, exact)
);
CREATE INDEX places_number ON places (number);
-- At most one row. Changes of places lock it. marks is the exclusive or of all marks, live and empty
-- count the places with and without settings, and places without settings were deleted up to forgotten.
CREATE TABLE places_version (
    one       BIGINT NOT NULL PRIMARY KEY,
    number    BIGINT NOT NULL,
    marks     BIGINT NOT NULL,
    live      BIGINT NOT NULL,
    empty     BIGINT NOT NULL,
    forgotten BIGINT NOT NULL
);
