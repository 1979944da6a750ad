-- Extents with damaged or missing bytes: bit i of bad is set if block i is damaged, and bytes counts
-- what these blocks have. object is the one that was damaged, or NULL if the extent is inline; the row
-- says nothing once the extent has another one.
CREATE TABLE damaged (
    content BYTEA  NOT NULL,
    part    BIGINT NOT NULL,
    off     BIGINT NOT NULL,
    size    BIGINT NOT NULL,
    object  BYTEA,
    bad     BIGINT NOT NULL,
    bytes   BIGINT NOT NULL,
    since   BIGINT NOT NULL,
    reason  BYTEA  NOT NULL,
    PRIMARY KEY (content, part, off)
);

-- One row: how far the scrub is. Objects up to object were checked in the round, and, once bodies is
-- 1, inline extents up to content, part and off.
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
