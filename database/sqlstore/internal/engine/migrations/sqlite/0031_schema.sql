-- Names, accounts and ids are bytes and not text, so that their order depends on no collation. Times
-- are microseconds since 1970, UTC. A CRC-64 is the int64 with the same bits. Amounts are in units
-- of the asset, from 0 to 2^63-1. A flag is 0 or 1. NULL in a column owner: the row counts towards
-- no owner. PostgreSQL has the same tables, except for transactions and those of sessions.

-- Blobs and their contents.

-- The key has the first 2,000 bytes of a name, and the SHA-256 of the rest, which is empty if there
-- is none: PostgreSQL limits an index entry to less than the longest name. The rest is a plain column.
CREATE TABLE blobs (
    account       BLOB   NOT NULL,
    name_head     BLOB   NOT NULL,
    name_hash     BLOB   NOT NULL,
    name_tail     BLOB   NOT NULL,
    content       BLOB   NOT NULL,
    size          BIGINT NOT NULL,
    crc64         BIGINT NOT NULL,
    part_size     BIGINT NOT NULL,           -- 2^46: parts of any size, which the table starts has
    sha256        BLOB,
    content_type  BLOB   NOT NULL,
    modified      BIGINT NOT NULL,
    expires       BIGINT,
    owner         BLOB,
    shared_second BIGINT NOT NULL DEFAULT 1, -- flag: an earlier blob of the name may have been modified in the same second
    metadata      BLOB,                      -- NULL: none
    shared        BIGINT NOT NULL DEFAULT 0, -- flag: the table shares counts the blobs that have the content
    row_sum       BIGINT,                    -- of account, name, content, size, crc64 and part_size; NULL: unchecked
    PRIMARY KEY (account, name_head, name_hash)
) WITHOUT ROWID;
CREATE INDEX blobs_expires ON blobs (expires) WHERE expires IS NOT NULL;
-- The order of the names that share their first 2,000 bytes.
CREATE INDEX blobs_long_names ON blobs (account, name_head, name_tail) WHERE length(name_head) = 2000;

-- The times of modification of blobs that were deleted soon after it, kept for some minutes: the next
-- blob of the name must be neither older nor of the same second.
CREATE TABLE deleted_blobs (
    account   BLOB   NOT NULL,
    name_head BLOB   NOT NULL,
    name_hash BLOB   NOT NULL,
    modified  BIGINT NOT NULL,
    PRIMARY KEY (account, name_head, name_hash)
) WITHOUT ROWID;
CREATE INDEX deleted_blobs_modified ON deleted_blobs (modified);

-- The pieces of contents.
CREATE TABLE extents (
    content BLOB   NOT NULL,
    part    BIGINT NOT NULL,
    off     BIGINT NOT NULL,
    size    BIGINT NOT NULL,
    blocks  BLOB   NOT NULL, -- checksums
    object  BLOB,            -- the key in the byte store; NULL: the extent is inline
    row_sum BIGINT,          -- of all other columns; NULL: unchecked
    PRIMARY KEY (content, part, off)
) WITHOUT ROWID;
CREATE UNIQUE INDEX extents_object ON extents (object) WHERE object IS NOT NULL;

-- The bytes of inline extents, in a table of their own to keep extents dense. It has rowids: to compare
-- two keys of a table WITHOUT ROWID, SQLite reads whole rows, and its tree's inner pages hold whole rows.
CREATE TABLE bodies (
    content BLOB   NOT NULL,
    part    BIGINT NOT NULL,
    off     BIGINT NOT NULL,
    body    BLOB   NOT NULL,
    PRIMARY KEY (content, part, off)
);

-- The number of blobs that have a content, if it was copied.
CREATE TABLE shares (
    content BLOB   NOT NULL PRIMARY KEY,
    refs    BIGINT NOT NULL CHECK (refs > 0)
) WITHOUT ROWID;

-- Contents that no blob and no upload has.
CREATE TABLE garbage (
    content BLOB   NOT NULL PRIMARY KEY,
    since   BIGINT NOT NULL,
    owner   BLOB,
    charge  BIGINT NOT NULL DEFAULT 0 -- bytes that it counts towards the owner's usage
) WITHOUT ROWID;
-- The order in which garbage becomes due. Contents that are not due are not read.
CREATE INDEX garbage_since ON garbage (since, content);

-- The parts of a content with parts of any size: where each begins, and its number of bytes.
CREATE TABLE starts (
    content  BLOB   NOT NULL,
    part     BIGINT NOT NULL,
    start    BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    checksum BLOB,            -- as in the table parts
    PRIMARY KEY (content, part)
) WITHOUT ROWID;
CREATE UNIQUE INDEX starts_start ON starts (content, start);
-- Whatever deletes a content's row of garbage deletes its rows, too.
CREATE TRIGGER starts_dropped AFTER DELETE ON garbage BEGIN
    DELETE FROM starts WHERE content = OLD.content;
END;

CREATE TABLE uploads (
    id           BLOB   NOT NULL PRIMARY KEY,
    account      BLOB   NOT NULL,
    name         BLOB   NOT NULL,
    content      BLOB   NOT NULL,
    part_size    BIGINT NOT NULL,
    content_type BLOB   NOT NULL,
    expires      BIGINT,                    -- of the blob
    create_only  BIGINT NOT NULL,           -- flag
    state        BIGINT NOT NULL,           -- 0 open, 1 committed, 2 aborted
    bytes        BIGINT NOT NULL,           -- of its parts
    revision     BIGINT NOT NULL,
    created      BIGINT NOT NULL,
    touched      BIGINT NOT NULL,
    ended        BIGINT,
    size         BIGINT NOT NULL,           -- of the blob, and its crc64 and modified
    crc64        BIGINT NOT NULL,
    modified     BIGINT,
    owner        BLOB,
    parts        BIGINT NOT NULL DEFAULT 0, -- their number
    metadata     BLOB,                      -- of the blob
    charge       BIGINT NOT NULL DEFAULT 0  -- as in the table garbage, for the outcome
) WITHOUT ROWID;
CREATE INDEX uploads_open ON uploads (account, created, id) WHERE state = 0;
CREATE INDEX uploads_idle ON uploads (touched) WHERE state = 0;
CREATE INDEX uploads_ended ON uploads (ended) WHERE ended IS NOT NULL;
-- Ended uploads whose parts still have rows.
CREATE INDEX uploads_ended_parts ON uploads (ended) WHERE ended IS NOT NULL AND parts > 0;
-- For lists of open uploads by name. Names are longer than an index's entries may be.
CREATE INDEX uploads_named ON uploads (account, substr(name, 1, 512)) WHERE state = 0;

CREATE TABLE parts (
    content  BLOB   NOT NULL,
    idx      BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    crc64    BIGINT NOT NULL,
    stored   BIGINT,          -- when; NULL: it is not known
    checksum BLOB,            -- besides crc64: the algorithm, a space and the value, as S3 names them; NULL: none
    PRIMARY KEY (content, idx)
) WITHOUT ROWID;

-- Extents with damaged or missing bytes.
CREATE TABLE damaged (
    content BLOB   NOT NULL,
    part    BIGINT NOT NULL,
    off     BIGINT NOT NULL,
    size    BIGINT NOT NULL,
    object  BLOB,            -- that was damaged; the row is void once the extent has another object
    bad     BIGINT NOT NULL, -- bit i is set if block i is damaged
    bytes   BIGINT NOT NULL, -- of these blocks
    since   BIGINT NOT NULL,
    reason  BLOB   NOT NULL,
    PRIMARY KEY (content, part, off)
) WITHOUT ROWID;

-- One row: how far the scrub is. Objects up to object were checked in the round and, once bodies is 1,
-- inline extents up to content, part and off.
CREATE TABLE scrub (
    revision BIGINT NOT NULL PRIMARY KEY,
    round    BIGINT NOT NULL,
    began    BIGINT,
    running  BIGINT NOT NULL,
    object   BLOB   NOT NULL,
    bodies   BIGINT NOT NULL,
    content  BLOB   NOT NULL,
    part     BIGINT NOT NULL,
    off      BIGINT NOT NULL,
    extents  BIGINT NOT NULL,
    bytes    BIGINT NOT NULL,
    finished BIGINT
) WITHOUT ROWID;
INSERT INTO scrub (revision, round, running, object, bodies, content, part, off, extents, bytes)
    VALUES (0, 0, 0, x'', 0, zeroblob(16), 0, 0, 0, 0);

-- Backups that are being made. Contents that become garbage from since on are kept until held_until.
CREATE TABLE holds (
    id         BLOB   NOT NULL PRIMARY KEY,
    since      BIGINT NOT NULL,
    held_until BIGINT NOT NULL
) WITHOUT ROWID;

-- Other names for accounts, for interfaces that cannot have theirs.
CREATE TABLE aliases (
    name    BLOB NOT NULL PRIMARY KEY,
    account BLOB NOT NULL
) WITHOUT ROWID;
-- One row. Every change of the aliases sets a new random value.
CREATE TABLE aliases_version (
    version BIGINT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO aliases_version (version) VALUES (0);

-- What accounts and owners store.

-- Requests with an Idempotency-Key. id is a hash of scope and key.
CREATE TABLE idempotency (
    id      BLOB   NOT NULL PRIMARY KEY,
    request BLOB   NOT NULL,
    outcome BLOB   NOT NULL,           -- the JSON of the first result
    created BIGINT NOT NULL,
    owner   BLOB,
    charge  BIGINT NOT NULL DEFAULT 0  -- as in the table garbage
) WITHOUT ROWID;
CREATE INDEX idempotency_created ON idempotency (created);

-- The number of an account's blobs and the bytes of their contents, of expired ones too: the account's
-- row of account_sums and its rows of account_deltas together. Triggers keep it. SQLite has one writer,
-- so its triggers change the sums, and account_deltas is empty.
CREATE TABLE account_sums (
    account BLOB   NOT NULL PRIMARY KEY,
    blobs   BIGINT NOT NULL,
    bytes   BIGINT NOT NULL
) WITHOUT ROWID;
CREATE TABLE account_deltas (
    account BLOB   NOT NULL,
    id      BIGINT NOT NULL,
    blobs   BIGINT NOT NULL,
    bytes   BIGINT NOT NULL,
    PRIMARY KEY (account, id)
) WITHOUT ROWID;
CREATE TRIGGER blobs_inserted AFTER INSERT ON blobs BEGIN
    INSERT INTO account_sums (account, blobs, bytes) VALUES (NEW.account, 1, NEW.size)
        ON CONFLICT (account) DO UPDATE SET blobs = blobs + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER blobs_resized AFTER UPDATE OF size ON blobs WHEN NEW.size <> OLD.size BEGIN
    UPDATE account_sums SET bytes = bytes + NEW.size - OLD.size WHERE account = NEW.account;
END;
CREATE TRIGGER blobs_deleted AFTER DELETE ON blobs BEGIN
    UPDATE account_sums SET blobs = blobs - 1, bytes = bytes - OLD.size WHERE account = OLD.account;
    DELETE FROM account_sums WHERE account = OLD.account AND blobs = 0 AND bytes = 0;
END;

-- The usage of an owner is its row of usage_sums and its rows of usage together. A transaction inserts
-- the difference that it makes, with an id that begins with the time, and a purge moves rows of usage
-- to the sums.
CREATE TABLE usage (
    owner    BLOB   NOT NULL,
    id       BLOB   NOT NULL,
    bytes    BIGINT NOT NULL,           -- of blobs and of parts of open uploads
    uploads  BIGINT NOT NULL,           -- that are open
    objects  BIGINT NOT NULL DEFAULT 0, -- blobs, and parts of open uploads
    names    BIGINT NOT NULL DEFAULT 0, -- bytes of the names and the metadata of blobs and open uploads
    channels BIGINT NOT NULL DEFAULT 0, -- that it ever opened
    retained BIGINT NOT NULL DEFAULT 0, -- charges of garbage, of ended uploads and of recorded requests
    PRIMARY KEY (owner, id)
) WITHOUT ROWID;
CREATE TABLE usage_sums (
    owner    BLOB   NOT NULL PRIMARY KEY,
    bytes    BIGINT NOT NULL,
    uploads  BIGINT NOT NULL,
    objects  BIGINT NOT NULL DEFAULT 0,
    names    BIGINT NOT NULL DEFAULT 0,
    channels BIGINT NOT NULL DEFAULT 0,
    retained BIGINT NOT NULL DEFAULT 0
) WITHOUT ROWID;
-- The transaction that inserts a row with a charge adds it to usage. Triggers subtract the charges of
-- rows that are deleted, from the sums, because SQLite has one writer.
CREATE TRIGGER garbage_deleted AFTER DELETE ON garbage WHEN OLD.owner IS NOT NULL AND OLD.charge <> 0 BEGIN
    INSERT INTO usage_sums (owner, bytes, uploads, retained) VALUES (OLD.owner, 0, 0, -OLD.charge)
        ON CONFLICT (owner) DO UPDATE SET retained = retained + excluded.retained;
    DELETE FROM usage_sums WHERE owner = OLD.owner AND bytes = 0 AND uploads = 0 AND objects = 0 AND names = 0 AND channels = 0 AND retained = 0;
END;
CREATE TRIGGER uploads_deleted AFTER DELETE ON uploads WHEN OLD.owner IS NOT NULL AND OLD.charge <> 0 BEGIN
    INSERT INTO usage_sums (owner, bytes, uploads, retained) VALUES (OLD.owner, 0, 0, -OLD.charge)
        ON CONFLICT (owner) DO UPDATE SET retained = retained + excluded.retained;
    DELETE FROM usage_sums WHERE owner = OLD.owner AND bytes = 0 AND uploads = 0 AND objects = 0 AND names = 0 AND channels = 0 AND retained = 0;
END;
CREATE TRIGGER idempotency_deleted AFTER DELETE ON idempotency WHEN OLD.owner IS NOT NULL AND OLD.charge <> 0 BEGIN
    INSERT INTO usage_sums (owner, bytes, uploads, retained) VALUES (OLD.owner, 0, 0, -OLD.charge)
        ON CONFLICT (owner) DO UPDATE SET retained = retained + excluded.retained;
    DELETE FROM usage_sums WHERE owner = OLD.owner AND bytes = 0 AND uploads = 0 AND objects = 0 AND names = 0 AND channels = 0 AND retained = 0;
END;

-- Sessions and payments.

-- Sessions. The counts of used and remaining chunksets are in rows of their own. These are small, so a
-- transaction with uses of many sessions changes few pages. sessions is a view with the columns that
-- the table has on PostgreSQL; the two counts are -1 if their row is missing.
CREATE TABLE session_terms (
    id            BLOB    NOT NULL PRIMARY KEY,
    counts        INTEGER NOT NULL, -- the row of session_counts
    user_identity BLOB    NOT NULL,
    total         BIGINT  NOT NULL,
    created       BIGINT  NOT NULL,
    expires       BIGINT  NOT NULL,
    channel       BLOB,             -- NULL: the session was granted
    charges       BLOB,             -- the last charges of reads, by which one in doubt is found; NULL: none
    row_sum       BIGINT            -- of id, user_identity, channel, total and created; NULL: unchecked
) WITHOUT ROWID;
CREATE UNIQUE INDEX session_terms_counts ON session_terms (counts);
CREATE INDEX session_terms_expires ON session_terms (expires);
CREATE INDEX session_terms_channel ON session_terms (channel, created, id) WHERE channel IS NOT NULL;
CREATE TABLE session_counts (
    n         INTEGER NOT NULL PRIMARY KEY,
    remaining BIGINT  NOT NULL CHECK (remaining >= 0),
    used      BIGINT  NOT NULL CHECK (used >= 0)
);
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

CREATE TABLE channels (
    id                 BLOB   NOT NULL PRIMARY KEY,
    payment_channel_id BIGINT NOT NULL,
    sender             BLOB   NOT NULL,
    receiver           BLOB   NOT NULL,
    asset              BLOB   NOT NULL,
    deposit            BIGINT NOT NULL,
    created            BIGINT NOT NULL,
    expires            BIGINT NOT NULL,
    accepted           BIGINT NOT NULL DEFAULT 0, -- the amount of the newest payment, with its sequence and proof
    sequence           BIGINT NOT NULL DEFAULT 0,
    proof              BLOB,                      -- NULL: no payment was accepted
    credit             BIGINT NOT NULL DEFAULT 0,
    settled            BIGINT NOT NULL DEFAULT 0,
    closed             BIGINT,
    folded             BIGINT NOT NULL DEFAULT 0, -- the sum of count times price of folded sales, which have no rows any more
    owner              BLOB,                      -- that opened it
    submitted          BIGINT NOT NULL DEFAULT 0, -- the amount of the submission in flight, or 0
    stopped            BLOB,                      -- why nothing is sold over the channel
    withdrawn          BIGINT NOT NULL DEFAULT 0, -- from here to read_at: read from the chain, with deposit and expires
    next_sequence      BIGINT NOT NULL DEFAULT 0,
    ledger             BIGINT,                    -- the time of the ledger of the fullnode that was read; NULL without a chain
    read_at            BIGINT,                    -- when; NULL without a chain
    collected          BIGINT NOT NULL DEFAULT 0, -- on the chain, by this service
    elsewhere          BIGINT NOT NULL DEFAULT 0, -- withdrawn in the name of the receiver, and not by this service
    form               BLOB,                      -- of a payment that was simulated or collected
    chain_created      BIGINT                     -- when the channel was opened on the chain
) WITHOUT ROWID;
CREATE UNIQUE INDEX channels_parties ON channels (payment_channel_id, receiver, asset, sender);
CREATE INDEX channels_elsewhere ON channels (elsewhere) WHERE elsewhere > 0;

-- Rows are inserted and never updated. A sale to a session is folded when the session is purged, any
-- other sale by its age. A return to the credit has a negative count, and neither sequence nor session.
CREATE TABLE sales (
    id       BLOB   NOT NULL PRIMARY KEY,
    channel  BLOB   NOT NULL,
    sequence BIGINT,          -- of the payment
    session  BLOB,            -- NULL: the chunksets were read directly
    count    BIGINT NOT NULL,
    price    BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    charge   BLOB             -- the name of a read's charge; NULL: the sale was to no read, or was returned
) WITHOUT ROWID;
-- A payment sells at most once. Returns have no sequence.
CREATE UNIQUE INDEX sales_payment ON sales (channel, sequence);
CREATE INDEX sales_session ON sales (session) WHERE session IS NOT NULL;
CREATE INDEX sales_at ON sales (at) WHERE session IS NULL;

-- At most one row for each channel: the newest accepted payment until it is collected.
CREATE TABLE settlements (
    channel  BLOB   NOT NULL PRIMARY KEY,
    sequence BIGINT NOT NULL,
    amount   BIGINT NOT NULL,
    proof    BLOB   NOT NULL,
    expires  BIGINT NOT NULL,
    due      BIGINT           -- when it is submitted to the chain at the latest; NULL without a chain
) WITHOUT ROWID;
CREATE INDEX settlements_expires ON settlements (expires);
CREATE INDEX settlements_due ON settlements (due) WHERE due IS NOT NULL;

-- At most one row for each channel: the newest payment that was submitted to the chain.
CREATE TABLE submissions (
    channel  BLOB   NOT NULL PRIMARY KEY,
    sequence BIGINT NOT NULL,
    amount   BIGINT NOT NULL,
    hash     BLOB   NOT NULL,
    body     BLOB   NOT NULL, -- empty unless it is in flight
    expires  BIGINT NOT NULL,
    state    BIGINT NOT NULL, -- 0 in flight, 1 collected, 2 failed, 3 expired
    status   BLOB,
    begun    BIGINT NOT NULL,
    ended    BIGINT,
    form     BLOB             -- of the payment
) WITHOUT ROWID;
CREATE INDEX submissions_uncollected ON submissions (state, channel) WHERE state <> 1;

-- Payouts of the embedded ledger. Amounts are cumulative, so the last payout of a channel suffices.
CREATE TABLE ledger (
    channel  BLOB   NOT NULL,
    sequence BIGINT NOT NULL,
    amount   BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    PRIMARY KEY (channel, sequence)
) WITHOUT ROWID;

-- Keys.

-- The limits that the keys of a group share. 0 is the default of the service, -1 is unlimited.
CREATE TABLE key_groups (
    name                 BLOB   NOT NULL PRIMARY KEY,
    requests_per_second  BIGINT NOT NULL,
    bytes_in_per_second  BIGINT NOT NULL,
    bytes_out_per_second BIGINT NOT NULL,
    concurrent_requests  BIGINT NOT NULL,
    stored_bytes         BIGINT NOT NULL,
    open_uploads         BIGINT NOT NULL,
    stored_objects       BIGINT NOT NULL DEFAULT 0,
    channels             BIGINT NOT NULL DEFAULT 0,
    occupied_bytes       BIGINT NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- scopes and accounts are JSON arrays of base64 strings, because their entries are bytes.
CREATE TABLE api_keys (
    id        BLOB   NOT NULL PRIMARY KEY,
    hash      BLOB   NOT NULL,
    label     BLOB   NOT NULL,
    scopes    BLOB,
    accounts  BLOB,            -- NULL: all
    key_group BLOB   NOT NULL,
    created   BIGINT NOT NULL,
    expires   BIGINT,
    revoked   BIGINT,
    s3_secret BLOB             -- sealed with a master key that is not in the database; NULL: it has none
) WITHOUT ROWID;
-- One row. Its value increases with every change of the keys.
CREATE TABLE keys_version (
    version BIGINT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO keys_version (version) VALUES (0);

-- This database and its processes.

-- Properties.
CREATE TABLE facts (
    name  BLOB NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- expires is by the engine's clock.
CREATE TABLE leases (
    name    BLOB   NOT NULL PRIMARY KEY,
    holder  BLOB   NOT NULL,
    expires BIGINT NOT NULL
) WITHOUT ROWID;

-- The nodes that run and their settings. expires is by the engine's clock.
CREATE TABLE nodes (
    id       BLOB   NOT NULL PRIMARY KEY,
    settings BLOB   NOT NULL,
    expires  BIGINT NOT NULL
) WITHOUT ROWID;

-- The chain of records that reveals another database on the same bytes, and a database or bytes that
-- were set back. Those with outside = 1 are known to be beside the bytes. The
-- newest are retained.
CREATE TABLE records (
    number   BIGINT NOT NULL PRIMARY KEY,
    owner    BLOB NOT NULL,
    nonce    BLOB NOT NULL,
    outside  BIGINT NOT NULL
) WITHOUT ROWID;

-- One row.
CREATE TABLE history (
    generation  BIGINT NOT NULL PRIMARY KEY,
    set_back    BLOB,   -- the signs that the instance was set back, in lines
    kept_before BIGINT, -- unreferenced objects from before it are kept until kept_until
    kept_until  BIGINT
) WITHOUT ROWID;
INSERT INTO history (generation) VALUES (1);
