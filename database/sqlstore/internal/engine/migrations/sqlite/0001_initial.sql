-- Names, accounts and ids are bytes, not text, so that their order depends on no
-- collation. Times are microseconds since 1970, UTC. A CRC-64 is the int64 with the
-- same bits.

-- PostgreSQL limits an index entry to less than the longest name. The key
-- therefore holds the first 2,000 bytes of a name and the SHA-256 of the rest (empty
-- if there is none). The rest itself is a plain column.
CREATE TABLE blobs (
    account      BLOB   NOT NULL,
    name_head    BLOB   NOT NULL,
    name_hash    BLOB   NOT NULL,
    name_tail    BLOB   NOT NULL,
    content      BLOB   NOT NULL,
    size         BIGINT NOT NULL,
    crc64        BIGINT NOT NULL,
    part_size    BIGINT NOT NULL,
    sha256       BLOB,
    content_type BLOB   NOT NULL,
    modified     BIGINT NOT NULL,
    expires      BIGINT,
    PRIMARY KEY (account, name_head, name_hash)
) WITHOUT ROWID;
CREATE INDEX blobs_expires ON blobs (expires) WHERE expires IS NOT NULL;
-- The order of the names that share their first 2,000 bytes.
CREATE INDEX blobs_long_names ON blobs (account, name_head, name_tail) WHERE length(name_head) = 2000;

-- object is the key in the byte store, or NULL if the extent is inline.
CREATE TABLE extents (
    content BLOB   NOT NULL,
    part    BIGINT NOT NULL,
    off     BIGINT NOT NULL,
    size    BIGINT NOT NULL,
    blocks  BLOB   NOT NULL,
    object  BLOB,
    PRIMARY KEY (content, part, off)
) WITHOUT ROWID;
CREATE UNIQUE INDEX extents_object ON extents (object) WHERE object IS NOT NULL;

-- The bytes of inline extents. They have a table of their own to keep extents dense.
CREATE TABLE bodies (
    content BLOB   NOT NULL,
    part    BIGINT NOT NULL,
    off     BIGINT NOT NULL,
    body    BLOB   NOT NULL,
    PRIMARY KEY (content, part, off)
) WITHOUT ROWID;

-- state: 0 open, 1 committed, 2 aborted.
CREATE TABLE uploads (
    id           BLOB   NOT NULL PRIMARY KEY,
    account      BLOB   NOT NULL,
    name         BLOB   NOT NULL,
    content      BLOB   NOT NULL,
    part_size    BIGINT NOT NULL,
    content_type BLOB   NOT NULL,
    expires      BIGINT,
    create_only  BIGINT NOT NULL,
    state        BIGINT NOT NULL,
    bytes        BIGINT NOT NULL,
    revision     BIGINT NOT NULL,
    created      BIGINT NOT NULL,
    touched      BIGINT NOT NULL,
    ended        BIGINT,
    size         BIGINT NOT NULL,
    crc64        BIGINT NOT NULL,
    modified     BIGINT
) WITHOUT ROWID;
CREATE INDEX uploads_open ON uploads (account, created, id) WHERE state = 0;
CREATE INDEX uploads_idle ON uploads (touched) WHERE state = 0;
CREATE INDEX uploads_ended ON uploads (ended) WHERE ended IS NOT NULL;

CREATE TABLE parts (
    content BLOB   NOT NULL,
    idx     BIGINT NOT NULL,
    size    BIGINT NOT NULL,
    crc64   BIGINT NOT NULL,
    PRIMARY KEY (content, idx)
) WITHOUT ROWID;

CREATE TABLE sessions (
    id            BLOB   NOT NULL PRIMARY KEY,
    user_identity BLOB   NOT NULL,
    total         BIGINT NOT NULL,
    remaining     BIGINT NOT NULL CHECK (remaining >= 0),
    created       BIGINT NOT NULL,
    expires       BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_expires ON sessions (expires);

CREATE TABLE channels (
    id                 BLOB   NOT NULL PRIMARY KEY,
    payment_channel_id BIGINT NOT NULL,
    sender             BLOB   NOT NULL,
    receiver           BLOB   NOT NULL,
    asset              BLOB   NOT NULL,
    deposit            BIGINT NOT NULL,
    created            BIGINT NOT NULL,
    expires            BIGINT NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX channels_parties ON channels (payment_channel_id, receiver, asset, sender);

-- id is a hash of scope and key. outcome is the JSON of the first result.
CREATE TABLE idempotency (
    id      BLOB   NOT NULL PRIMARY KEY,
    request BLOB   NOT NULL,
    outcome BLOB   NOT NULL,
    created BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX idempotency_created ON idempotency (created);

CREATE TABLE garbage (
    content BLOB   NOT NULL PRIMARY KEY,
    since   BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE facts (
    name  BLOB NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;
