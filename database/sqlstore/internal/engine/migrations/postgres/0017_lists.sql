-- A page of a listing, in one statement and one state of the database. What it reads grows with
-- the entries of the page, not with the names in a group, which it skips.
--
-- The page starts with the first name that is not less than first, and has the names that begin
-- with prefix. A name in which the delimiter follows the prefix, unless that is empty, stands for
-- its group, which is listed if it is greater than after. Each entry counts the bytes of its texts
-- and those of charge: the page has at most most_entries of them, and at most most_bytes in
-- total, but at least one.
--
-- A row of kind 0 is a blob, whose name is head and tail together; one of kind 1 a group, in head;
-- and one of kind 2, which is the last, says that there are more. Names that share their first
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
                ELSIF metadata IS NOT NULL AND substr(metadata, 1, 16) = content THEN
                    text_bytes := text_bytes + length(metadata) - 16;
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
