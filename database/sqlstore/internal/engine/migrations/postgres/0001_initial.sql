-- Names, accounts and ids are bytes, not text, so that their order depends on no
-- collation. Times are microseconds since 1970, UTC. A CRC-64 is the int64 with the
-- same bits.

-- PostgreSQL limits an index entry to less than the longest name. The key
-- therefore holds the first 2,000 bytes of a name and the SHA-256 of the rest (empty
-- if there is none). The rest itself is a plain column.
CREATE TABLE blobs (
    account      BYTEA  NOT NULL,
    name_head    BYTEA  NOT NULL,
    name_hash    BYTEA  NOT NULL,
    name_tail    BYTEA  NOT NULL,
    content      BYTEA  NOT NULL,
    size         BIGINT NOT NULL,
    crc64        BIGINT NOT NULL,
    part_size    BIGINT NOT NULL,
    sha256       BYTEA,
    content_type BYTEA  NOT NULL,
    modified     BIGINT NOT NULL,
    expires      BIGINT,
    PRIMARY KEY (account, name_head, name_hash)
);
CREATE INDEX blobs_expires ON blobs (expires) WHERE expires IS NOT NULL;
-- The order of the names that share their first 2,000 bytes. Head and tail together
-- exceed the limit of an index entry. Queries compare the head for equality only, so
-- that its hash is enough.
CREATE INDEX blobs_long_names ON blobs (account, sha256(name_head), name_tail) WHERE length(name_head) = 2000;

-- object is the key in the byte store, or NULL if the extent is inline.
CREATE TABLE extents (
    content BYTEA  NOT NULL,
    part    BIGINT NOT NULL,
    off     BIGINT NOT NULL,
    size    BIGINT NOT NULL,
    blocks  BYTEA  NOT NULL,
    object  BYTEA,
    PRIMARY KEY (content, part, off)
);
CREATE UNIQUE INDEX extents_object ON extents (object) WHERE object IS NOT NULL;

-- The bytes of inline extents. They have a table of their own to keep extents dense.
CREATE TABLE bodies (
    content BYTEA  NOT NULL,
    part    BIGINT NOT NULL,
    off     BIGINT NOT NULL,
    body    BYTEA  NOT NULL,
    PRIMARY KEY (content, part, off)
);

-- state: 0 open, 1 committed, 2 aborted.
CREATE TABLE uploads (
    id           BYTEA  NOT NULL PRIMARY KEY,
    account      BYTEA  NOT NULL,
    name         BYTEA  NOT NULL,
    content      BYTEA  NOT NULL,
    part_size    BIGINT NOT NULL,
    content_type BYTEA  NOT NULL,
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
);
CREATE INDEX uploads_open ON uploads (account, created, id) WHERE state = 0;
CREATE INDEX uploads_idle ON uploads (touched) WHERE state = 0;
CREATE INDEX uploads_ended ON uploads (ended) WHERE ended IS NOT NULL;

CREATE TABLE parts (
    content BYTEA  NOT NULL,
    idx     BIGINT NOT NULL,
    size    BIGINT NOT NULL,
    crc64   BIGINT NOT NULL,
    PRIMARY KEY (content, idx)
);

CREATE TABLE sessions (
    id            BYTEA  NOT NULL PRIMARY KEY,
    user_identity BYTEA  NOT NULL,
    total         BIGINT NOT NULL,
    remaining     BIGINT NOT NULL CHECK (remaining >= 0),
    created       BIGINT NOT NULL,
    expires       BIGINT NOT NULL
);
CREATE INDEX sessions_expires ON sessions (expires);

CREATE TABLE channels (
    id                 BYTEA  NOT NULL PRIMARY KEY,
    payment_channel_id BIGINT NOT NULL,
    sender             BYTEA  NOT NULL,
    receiver           BYTEA  NOT NULL,
    asset              BYTEA  NOT NULL,
    deposit            BIGINT NOT NULL,
    created            BIGINT NOT NULL,
    expires            BIGINT NOT NULL
);
CREATE UNIQUE INDEX channels_parties ON channels (payment_channel_id, receiver, asset, sender);

-- id is a hash of scope and key. outcome is the JSON of the first result.
CREATE TABLE idempotency (
    id      BYTEA  NOT NULL PRIMARY KEY,
    request BYTEA  NOT NULL,
    outcome BYTEA  NOT NULL,
    created BIGINT NOT NULL
);
CREATE INDEX idempotency_created ON idempotency (created);

CREATE TABLE garbage (
    content BYTEA  NOT NULL PRIMARY KEY,
    since   BIGINT NOT NULL
);

CREATE TABLE facts (
    name  BYTEA NOT NULL PRIMARY KEY,
    value BYTEA NOT NULL
);
