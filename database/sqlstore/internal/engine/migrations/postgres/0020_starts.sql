-- Where each part begins of a content with parts of any size (blobs.part_size 2^46), and its bytes.
-- The rows of a content go with its row of garbage, in whatever way that is deleted: nodes of
-- earlier versions delete garbage, too.
CREATE TABLE starts (
    content BYTEA  NOT NULL,
    part    BIGINT NOT NULL,
    start   BIGINT NOT NULL,
    size    BIGINT NOT NULL,
    PRIMARY KEY (content, part)
);
CREATE UNIQUE INDEX starts_start ON starts (content, start);
CREATE FUNCTION drop_starts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- By the key, however many rows there are and whatever the planner knows of them.
    DELETE FROM starts WHERE content = ANY (ARRAY(SELECT content FROM gone));
    RETURN NULL;
END
$$;
CREATE TRIGGER starts_dropped AFTER DELETE ON garbage REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION drop_starts();

-- A node of the version before copies a small content, of one extent in one part, without these
-- rows. Its copy is an ordinary content, in which that part's number has no meaning.
CREATE FUNCTION forget_part_number() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM starts WHERE content = NEW.content) THEN
        NEW.part_size := 0;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER blobs_uneven BEFORE INSERT OR UPDATE ON blobs FOR EACH ROW WHEN (NEW.part_size = 70368744177664) EXECUTE FUNCTION forget_part_number();

-- When a part was stored. Rows of earlier versions have none.
ALTER TABLE parts ADD COLUMN stored BIGINT;
