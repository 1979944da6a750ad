-- Names, accounts and ids are bytes and not text, so that their order depends on no collation. Times
-- are microseconds since 1970, UTC. A CRC-64 is the int64 with the same bits. Amounts are in units
-- of the asset, from 0 to 2^63-1. A flag is 0 or 1. NULL in a column owner: the row counts towards
-- no owner. SQLite has the same tables, except for transactions and those of sessions.

-- Blobs and their contents.

-- An index entry is limited to less than the longest name, so the key has the first 2,000 bytes of a
-- name, and the SHA-256 of the rest, which is empty if there is none. The rest is a plain column.
CREATE TABLE blobs (
    account       BYTEA  NOT NULL,
    name_head     BYTEA  NOT NULL,
    name_hash     BYTEA  NOT NULL,
    name_tail     BYTEA  NOT NULL,
    content       BYTEA  NOT NULL,
    size          BIGINT NOT NULL,
    crc64         BIGINT NOT NULL,
    part_size     BIGINT NOT NULL,           -- 2^46: parts of any size, which the table starts has
    sha256        BYTEA,
    content_type  BYTEA  NOT NULL,
    modified      BIGINT NOT NULL,
    expires       BIGINT,
    owner         BYTEA,
    shared_second BIGINT NOT NULL DEFAULT 1, -- flag: an earlier blob of the name may have been modified in the same second
    metadata      BYTEA,                     -- NULL: none
    shared        BIGINT NOT NULL DEFAULT 0, -- flag: the table shares counts the blobs that have the content
    row_sum       BIGINT,                    -- of account, name, content, size, crc64 and part_size; NULL: unchecked
    PRIMARY KEY (account, name_head, name_hash)
);
CREATE INDEX blobs_expires ON blobs (expires) WHERE expires IS NOT NULL;
-- The order of the names that share their first 2,000 bytes. Head and tail together exceed the limit
-- of an index entry. Queries compare the head for equality only, so that its hash is enough.
CREATE INDEX blobs_long_names ON blobs (account, sha256(name_head), name_tail) WHERE length(name_head) = 2000;

-- The times of modification of blobs that were deleted soon after it, kept for some minutes: the next
-- blob of the name must be neither older nor of the same second.
CREATE TABLE deleted_blobs (
    account   BYTEA  NOT NULL,
    name_head BYTEA  NOT NULL,
    name_hash BYTEA  NOT NULL,
    modified  BIGINT NOT NULL,
    PRIMARY KEY (account, name_head, name_hash)
);
CREATE INDEX deleted_blobs_modified ON deleted_blobs (modified);

-- The pieces of contents.
CREATE TABLE extents (
    content BYTEA  NOT NULL,
    part    BIGINT NOT NULL,
    off     BIGINT NOT NULL,
    size    BIGINT NOT NULL,
    blocks  BYTEA  NOT NULL, -- checksums
    object  BYTEA,           -- the key in the byte store; NULL: the extent is inline
    row_sum BIGINT,          -- of all other columns; NULL: unchecked
    PRIMARY KEY (content, part, off)
);
CREATE UNIQUE INDEX extents_object ON extents (object) WHERE object IS NOT NULL;

-- The bytes of inline extents, in a table of their own to keep extents dense.
CREATE TABLE bodies (
    content BYTEA  NOT NULL,
    part    BIGINT NOT NULL,
    off     BIGINT NOT NULL,
    body    BYTEA  NOT NULL,
    PRIMARY KEY (content, part, off)
);

-- The number of blobs that have a content, if it was copied.
CREATE TABLE shares (
    content BYTEA  NOT NULL PRIMARY KEY,
    refs    BIGINT NOT NULL CHECK (refs > 0)
);

-- Contents that no blob and no upload has.
CREATE TABLE garbage (
    content BYTEA  NOT NULL PRIMARY KEY,
    since   BIGINT NOT NULL,
    owner   BYTEA,
    charge  BIGINT NOT NULL DEFAULT 0 -- bytes that it counts towards the owner's usage
);
-- The order in which garbage becomes due. Contents that are not due are not read.
CREATE INDEX garbage_since ON garbage (since, content);

-- The parts of a content with parts of any size: where each begins, and its number of bytes.
CREATE TABLE starts (
    content  BYTEA  NOT NULL,
    part     BIGINT NOT NULL,
    start    BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    checksum BYTEA,           -- as in the table parts
    PRIMARY KEY (content, part)
);
CREATE UNIQUE INDEX starts_start ON starts (content, start);
-- Whatever deletes a content's row of garbage deletes its rows, too.
CREATE FUNCTION drop_starts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- An array lets the planner use the key even if its statistics are old.
    DELETE FROM starts WHERE content = ANY (ARRAY(SELECT content FROM gone));
    RETURN NULL;
END
$$;
CREATE TRIGGER starts_dropped AFTER DELETE ON garbage REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION drop_starts();

CREATE TABLE uploads (
    id           BYTEA  NOT NULL PRIMARY KEY,
    account      BYTEA  NOT NULL,
    name         BYTEA  NOT NULL,
    content      BYTEA  NOT NULL,
    part_size    BIGINT NOT NULL,
    content_type BYTEA  NOT NULL,
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
    owner        BYTEA,
    parts        BIGINT NOT NULL DEFAULT 0, -- their number
    metadata     BYTEA,                     -- of the blob
    charge       BIGINT NOT NULL DEFAULT 0  -- as in the table garbage, for the outcome
);
CREATE INDEX uploads_open ON uploads (account, created, id) WHERE state = 0;
CREATE INDEX uploads_idle ON uploads (touched) WHERE state = 0;
CREATE INDEX uploads_ended ON uploads (ended) WHERE ended IS NOT NULL;
-- Ended uploads whose parts still have rows.
CREATE INDEX uploads_ended_parts ON uploads (ended) WHERE ended IS NOT NULL AND parts > 0;
-- For lists of open uploads by name. Names are longer than an index's entries may be.
CREATE INDEX uploads_named ON uploads (account, substr(name, 1, 512)) WHERE state = 0;

CREATE TABLE parts (
    content  BYTEA  NOT NULL,
    idx      BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    crc64    BIGINT NOT NULL,
    stored   BIGINT,          -- when; NULL: it is not known
    checksum BYTEA,           -- besides crc64: the algorithm, a space and the value, as S3 names them; NULL: none
    PRIMARY KEY (content, idx)
);

-- Extents with damaged or missing bytes.
CREATE TABLE damaged (
    content BYTEA  NOT NULL,
    part    BIGINT NOT NULL,
    off     BIGINT NOT NULL,
    size    BIGINT NOT NULL,
    object  BYTEA,           -- that was damaged; the row is void once the extent has another object
    bad     BIGINT NOT NULL, -- bit i is set if block i is damaged
    bytes   BIGINT NOT NULL, -- of these blocks
    since   BIGINT NOT NULL,
    reason  BYTEA  NOT NULL,
    PRIMARY KEY (content, part, off)
);

-- One row: how far the scrub is. Objects up to object were checked in the round and, once bodies is 1,
-- inline extents up to content, part and off.
CREATE TABLE scrub (
    revision BIGINT NOT NULL PRIMARY KEY,
    round    BIGINT NOT NULL,
    began    BIGINT,
    running  BIGINT NOT NULL,
    object   BYTEA  NOT NULL,
    bodies   BIGINT NOT NULL,
    content  BYTEA  NOT NULL,
    part     BIGINT NOT NULL,
    off      BIGINT NOT NULL,
    extents  BIGINT NOT NULL,
    bytes    BIGINT NOT NULL,
    finished BIGINT
);
INSERT INTO scrub (revision, round, running, object, bodies, content, part, off, extents, bytes)
    VALUES (0, 0, 0, '', 0, decode('00000000000000000000000000000000', 'hex'), 0, 0, 0, 0);

-- Backups that are being made. Contents that become garbage from since on are kept until held_until.
CREATE TABLE holds (
    id         BYTEA  NOT NULL PRIMARY KEY,
    since      BIGINT NOT NULL,
    held_until BIGINT NOT NULL
);

-- Other names for accounts, for interfaces that cannot have theirs.
CREATE TABLE aliases (
    name    BYTEA NOT NULL PRIMARY KEY,
    account BYTEA NOT NULL
);
-- One row. Every change of the aliases sets a new random value.
CREATE TABLE aliases_version (
    version BIGINT NOT NULL PRIMARY KEY
);
INSERT INTO aliases_version (version) VALUES (0);

-- What accounts and owners store.

-- Requests with an Idempotency-Key. id is a hash of scope and key.
CREATE TABLE idempotency (
    id      BYTEA  NOT NULL PRIMARY KEY,
    request BYTEA  NOT NULL,
    outcome BYTEA  NOT NULL,           -- the JSON of the first result
    created BIGINT NOT NULL,
    owner   BYTEA,
    charge  BIGINT NOT NULL DEFAULT 0  -- as in the table garbage
);
CREATE INDEX idempotency_created ON idempotency (created);

-- The number of an account's blobs and the bytes of their contents, of expired ones too: the account's
-- row of account_sums and its rows of account_deltas together. Triggers keep it. They insert deltas, so
-- that concurrent writers share no row, and a purge moves these to the sums.
CREATE TABLE account_sums (
    account BYTEA  NOT NULL PRIMARY KEY,
    blobs   BIGINT NOT NULL,
    bytes   BIGINT NOT NULL
);
CREATE TABLE account_deltas (
    account BYTEA  NOT NULL,
    id      BIGINT GENERATED ALWAYS AS IDENTITY,
    blobs   BIGINT NOT NULL,
    bytes   BIGINT NOT NULL,
    PRIMARY KEY (account, id)
);
CREATE FUNCTION count_blob() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO account_deltas (account, blobs, bytes) VALUES (NEW.account, 1, NEW.size);
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO account_deltas (account, blobs, bytes) VALUES (NEW.account, 0, NEW.size - OLD.size);
    ELSE
        INSERT INTO account_deltas (account, blobs, bytes) VALUES (OLD.account, -1, -OLD.size);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER blobs_inserted AFTER INSERT ON blobs FOR EACH ROW EXECUTE FUNCTION count_blob();
CREATE TRIGGER blobs_resized AFTER UPDATE OF size ON blobs FOR EACH ROW WHEN (NEW.size <> OLD.size) EXECUTE FUNCTION count_blob();
CREATE TRIGGER blobs_deleted AFTER DELETE ON blobs FOR EACH ROW EXECUTE FUNCTION count_blob();

-- The usage of an owner is its row of usage_sums and its rows of usage together. A transaction inserts
-- the difference that it makes, with an id that begins with the time, and a purge moves rows of usage
-- to the sums.
CREATE TABLE usage (
    owner    BYTEA  NOT NULL,
    id       BYTEA  NOT NULL,
    bytes    BIGINT NOT NULL,           -- of blobs and of parts of open uploads
    uploads  BIGINT NOT NULL,           -- that are open
    objects  BIGINT NOT NULL DEFAULT 0, -- blobs, and parts of open uploads
    names    BIGINT NOT NULL DEFAULT 0, -- bytes of the names and the metadata of blobs and open uploads
    channels BIGINT NOT NULL DEFAULT 0, -- that it ever opened
    retained BIGINT NOT NULL DEFAULT 0, -- charges of garbage, of ended uploads and of recorded requests
    PRIMARY KEY (owner, id)
);
CREATE TABLE usage_sums (
    owner    BYTEA  NOT NULL PRIMARY KEY,
    bytes    BIGINT NOT NULL,
    uploads  BIGINT NOT NULL,
    objects  BIGINT NOT NULL DEFAULT 0,
    names    BIGINT NOT NULL DEFAULT 0,
    channels BIGINT NOT NULL DEFAULT 0,
    retained BIGINT NOT NULL DEFAULT 0
);
-- The transaction that inserts a row with a charge adds it to usage. Triggers subtract the charges of
-- rows that are deleted, by rows of usage, so that concurrent writers share no row.
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

-- Sessions and payments.

CREATE TABLE sessions (
    id            BYTEA  NOT NULL PRIMARY KEY,
    user_identity BYTEA  NOT NULL,
    total         BIGINT NOT NULL,
    remaining     BIGINT NOT NULL CHECK (remaining >= 0),
    created       BIGINT NOT NULL,
    expires       BIGINT NOT NULL,
    channel       BYTEA,           -- NULL: the session was granted
    used          BIGINT NOT NULL DEFAULT 0 CHECK (used >= 0),
    charges       BYTEA,           -- the last charges of reads, by which one in doubt is found; NULL: none
    row_sum       BIGINT           -- of id, user_identity, channel, total and created; NULL: unchecked
);
CREATE INDEX sessions_expires ON sessions (expires);
CREATE INDEX sessions_channel ON sessions (channel, created, id) WHERE channel IS NOT NULL;

CREATE TABLE channels (
    id                 BYTEA  NOT NULL PRIMARY KEY,
    payment_channel_id BIGINT NOT NULL,
    sender             BYTEA  NOT NULL,
    receiver           BYTEA  NOT NULL,
    asset              BYTEA  NOT NULL,
    deposit            BIGINT NOT NULL,
    created            BIGINT NOT NULL,
    expires            BIGINT NOT NULL,
    accepted           BIGINT NOT NULL DEFAULT 0, -- the amount of the newest payment, with its sequence and proof
    sequence           BIGINT NOT NULL DEFAULT 0,
    proof              BYTEA,                     -- NULL: no payment was accepted
    credit             BIGINT NOT NULL DEFAULT 0,
    settled            BIGINT NOT NULL DEFAULT 0,
    closed             BIGINT,
    folded             BIGINT NOT NULL DEFAULT 0, -- the sum of count times price of folded sales, which have no rows any more
    owner              BYTEA,                     -- that opened it
    submitted          BIGINT NOT NULL DEFAULT 0, -- the amount of the submission in flight, or 0
    stopped            BYTEA,                     -- why nothing is sold over the channel
    withdrawn          BIGINT NOT NULL DEFAULT 0, -- from here to read_at: read from the chain, with deposit and expires
    next_sequence      BIGINT NOT NULL DEFAULT 0,
    ledger             BIGINT,                    -- the time of the ledger of the fullnode that was read; NULL without a chain
    read_at            BIGINT,                    -- when; NULL without a chain
    collected          BIGINT NOT NULL DEFAULT 0, -- on the chain, by this service
    elsewhere          BIGINT NOT NULL DEFAULT 0, -- withdrawn in the name of the receiver, and not by this service
    form               BYTEA,                     -- of a payment that was simulated or collected
    chain_created      BIGINT                     -- when the channel was opened on the chain
);
CREATE UNIQUE INDEX channels_parties ON channels (payment_channel_id, receiver, asset, sender);
CREATE INDEX channels_elsewhere ON channels (elsewhere) WHERE elsewhere > 0;

-- Rows are inserted and never updated. A sale to a session is folded when the session is purged, any
-- other sale by its age. A return to the credit has a negative count, and neither sequence nor session.
CREATE TABLE sales (
    id       BYTEA  NOT NULL PRIMARY KEY,
    channel  BYTEA  NOT NULL,
    sequence BIGINT,          -- of the payment
    session  BYTEA,           -- NULL: the chunksets were read directly
    count    BIGINT NOT NULL,
    price    BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    charge   BYTEA            -- the name of a read's charge; NULL: the sale was to no read, or was returned
);
-- A payment sells at most once. Returns have no sequence.
CREATE UNIQUE INDEX sales_payment ON sales (channel, sequence);
CREATE INDEX sales_session ON sales (session) WHERE session IS NOT NULL;
CREATE INDEX sales_at ON sales (at) WHERE session IS NULL;

-- At most one row for each channel: the newest accepted payment until it is collected.
CREATE TABLE settlements (
    channel  BYTEA  NOT NULL PRIMARY KEY,
    sequence BIGINT NOT NULL,
    amount   BIGINT NOT NULL,
    proof    BYTEA  NOT NULL,
    expires  BIGINT NOT NULL,
    due      BIGINT           -- when it is submitted to the chain at the latest; NULL without a chain
);
CREATE INDEX settlements_expires ON settlements (expires);
CREATE INDEX settlements_due ON settlements (due) WHERE due IS NOT NULL;

-- At most one row for each channel: the newest payment that was submitted to the chain.
CREATE TABLE submissions (
    channel  BYTEA  NOT NULL PRIMARY KEY,
    sequence BIGINT NOT NULL,
    amount   BIGINT NOT NULL,
    hash     BYTEA  NOT NULL,
    body     BYTEA  NOT NULL, -- empty unless it is in flight
    expires  BIGINT NOT NULL,
    state    BIGINT NOT NULL, -- 0 in flight, 1 collected, 2 failed, 3 expired
    status   BYTEA,
    begun    BIGINT NOT NULL,
    ended    BIGINT,
    form     BYTEA            -- of the payment
);
CREATE INDEX submissions_uncollected ON submissions (state, channel) WHERE state <> 1;

-- Payouts of the embedded ledger. Amounts are cumulative, so the last payout of a channel suffices.
CREATE TABLE ledger (
    channel  BYTEA  NOT NULL,
    sequence BIGINT NOT NULL,
    amount   BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    PRIMARY KEY (channel, sequence)
);

-- Keys.

-- The limits that the keys of a group share. 0 is the default of the service, -1 is unlimited.
CREATE TABLE key_groups (
    name                 BYTEA  NOT NULL PRIMARY KEY,
    requests_per_second  BIGINT NOT NULL,
    bytes_in_per_second  BIGINT NOT NULL,
    bytes_out_per_second BIGINT NOT NULL,
    concurrent_requests  BIGINT NOT NULL,
    stored_bytes         BIGINT NOT NULL,
    open_uploads         BIGINT NOT NULL,
    stored_objects       BIGINT NOT NULL DEFAULT 0,
    channels             BIGINT NOT NULL DEFAULT 0,
    occupied_bytes       BIGINT NOT NULL DEFAULT 0
);

-- scopes and accounts are JSON arrays of base64 strings, because their entries are bytes.
CREATE TABLE api_keys (
    id        BYTEA  NOT NULL PRIMARY KEY,
    hash      BYTEA  NOT NULL,
    label     BYTEA  NOT NULL,
    scopes    BYTEA,
    accounts  BYTEA,           -- NULL: all
    key_group BYTEA  NOT NULL,
    created   BIGINT NOT NULL,
    expires   BIGINT,
    revoked   BIGINT,
    s3_secret BYTEA            -- sealed with a master key that is not in the database; NULL: it has none
);
-- One row. Its value increases with every change of the keys.
CREATE TABLE keys_version (
    version BIGINT NOT NULL PRIMARY KEY
);
INSERT INTO keys_version (version) VALUES (0);

-- This database and its processes.

-- Properties.
CREATE TABLE facts (
    name  BYTEA NOT NULL PRIMARY KEY,
    value BYTEA NOT NULL
);

-- expires is by the engine's clock.
CREATE TABLE leases (
    name    BYTEA  NOT NULL PRIMARY KEY,
    holder  BYTEA  NOT NULL,
    expires BIGINT NOT NULL
);

-- The nodes that run and their settings. expires is by the engine's clock.
CREATE TABLE nodes (
    id       BYTEA  NOT NULL PRIMARY KEY,
    settings BYTEA  NOT NULL,
    expires  BIGINT NOT NULL
);

-- The write transactions of the last minutes. Each inserts its id first, so that the outcome of one
-- with a COMMIT that was not answered can be looked up. Ids begin with the time of their creation.
CREATE TABLE transactions (id BYTEA NOT NULL PRIMARY KEY);

-- The chain of records that reveals another database on the same bytes, and a database or bytes that
-- were set back. Those with outside = 1 are known to be beside the bytes. The
-- newest are retained.
CREATE TABLE records (
    number   BIGINT NOT NULL PRIMARY KEY,
    owner    BYTEA NOT NULL,
    nonce    BYTEA NOT NULL,
    outside  BIGINT NOT NULL
);

-- One row.
CREATE TABLE history (
    generation  BIGINT NOT NULL PRIMARY KEY,
    set_back    BYTEA,  -- the signs that the instance was set back, in lines
    kept_before BIGINT, -- unreferenced objects from before it are kept until kept_until
    kept_until  BIGINT
);
INSERT INTO history (generation) VALUES (1);

-- Lists.

-- A page of a listing, in one statement and one state of the database. It skips the names in a
-- group, so its reads grow with the entries of the page alone.
--
-- The page starts with the first name that is not less than first, and has the names that begin
-- with prefix. A name in which the delimiter follows the prefix, unless that is empty, stands for
-- its group, which is listed if it is greater than after. Each entry counts the bytes of its texts
-- and those of charge: the page has at most most_entries of them, and at most most_bytes in
-- total, but at least one.
--
-- A row of kind 0 is a blob, whose name is head and tail together; one of kind 1 a group, in head;
-- and one of kind 2, always the last, reports that there are more. Names that share their first
-- 2,000 bytes are ordered by the index blobs_long_names, one head at a time.
CREATE FUNCTION list_blobs(
    of_account BYTEA, prefix BYTEA, delimiter BYTEA, after BYTEA, first BYTEA, live_after BIGINT,
    with_metadata BIGINT, most_entries BIGINT, most_bytes BIGINT, charge BIGINT
) RETURNS TABLE (
    kind BIGINT, head BYTEA, tail BYTEA, content BYTEA, size BIGINT, crc64 BIGINT, part_size BIGINT, sha256 BYTEA,
    content_type BYTEA, modified BIGINT, expires BIGINT, owner BYTEA, shared_second BIGINT, metadata BYTEA
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    names      REFCURSOR;
    in_head    BOOLEAN := length(first) >= 2000;
    text_bytes BIGINT;
    name       BYTEA;
    found_at   INTEGER;
    entries    BIGINT := 0;
    bytes      BIGINT := 0;
    again      BOOLEAN := true;
BEGIN
    WHILE again LOOP
        IF in_head THEN
            OPEN names FOR SELECT b.name_head, b.name_tail, b.content, b.size, b.crc64, b.part_size, b.sha256, b.content_type,
                    b.modified, b.expires, b.owner, b.shared_second, CASE WHEN with_metadata = 1 THEN b.metadata END,
                    length(b.name_head) + length(b.name_tail) + length(b.content_type)
                FROM blobs b
                WHERE b.account = of_account AND b.name_head = substr(first, 1, 2000)
                    AND sha256(b.name_head) = sha256(substr(first, 1, 2000)) AND length(b.name_head) = 2000
                    AND b.name_tail >= substr(first, 2001) AND (b.expires IS NULL OR b.expires > live_after)
                ORDER BY b.name_tail;
        ELSE
            OPEN names FOR SELECT b.name_head, b.name_tail, b.content, b.size, b.crc64, b.part_size, b.sha256, b.content_type,
                    b.modified, b.expires, b.owner, b.shared_second, CASE WHEN with_metadata = 1 THEN b.metadata END,
                    length(b.name_head) + length(b.name_tail) + length(b.content_type)
                FROM blobs b
                WHERE b.account = of_account AND b.name_head >= first AND (b.expires IS NULL OR b.expires > live_after)
                ORDER BY b.name_head, b.name_hash;
        END IF;
        again := false;
        LOOP
            FETCH names INTO head, tail, content, size, crc64, part_size, sha256, content_type, modified, expires, owner,
                shared_second, metadata, text_bytes;
            IF NOT FOUND THEN
                IF in_head THEN
                    first := substr(first, 1, 2000) || '\x00';
                    in_head := false;
                    again := true;
                END IF;
                EXIT;
            ELSIF NOT in_head AND length(head) = 2000 THEN
                first := head;
                in_head := true;
                again := true;
                EXIT;
            END IF;
            name := head || tail;
            EXIT WHEN substr(name, 1, length(prefix)) <> prefix;
            found_at := 0;
            IF delimiter <> '' THEN
                found_at := position(delimiter IN substr(name, length(prefix) + 1));
            END IF;
            IF found_at > 0 THEN
                name := substr(name, 1, length(prefix) + found_at - 1 + length(delimiter));
            END IF;
            IF found_at = 0 OR name > after THEN
                IF found_at > 0 THEN
                    text_bytes := length(name);
                ELSIF metadata IS NOT NULL THEN
                    text_bytes := text_bytes + length(metadata);
                END IF;
                bytes := bytes + text_bytes + charge;
                IF entries = most_entries OR entries > 0 AND bytes > most_bytes THEN
                    kind := 2;
                    RETURN NEXT;
                    RETURN;
                END IF;
                entries := entries + 1;
                kind := 0;
                IF found_at > 0 THEN
                    kind := 1;
                    head := name;
                    tail := '';
                END IF;
                RETURN NEXT;
            END IF;
            IF found_at > 0 THEN
                -- On to the first name that is greater than all names of the group.
                found_at := length(name);
                WHILE found_at > 0 AND get_byte(name, found_at - 1) = 255 LOOP
                    found_at := found_at - 1;
                END LOOP;
                EXIT WHEN found_at = 0;
                first := set_byte(substr(name, 1, found_at), found_at - 1, get_byte(name, found_at - 1) + 1);
                in_head := length(first) >= 2000;
                again := true;
                EXIT;
            END IF;
        END LOOP;
        CLOSE names;
    END LOOP;
END
$$;
