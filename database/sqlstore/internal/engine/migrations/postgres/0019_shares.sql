-- A content that several blobs have. refs is the number of the rows of blobs whose shared is their
-- content; shared is NULL, or another content, in the rows of all other contents. A blob's row and
-- its content's row change in one transaction.
CREATE TABLE shares (
    content BYTEA  NOT NULL PRIMARY KEY,
    refs    BIGINT NOT NULL CHECK (refs > 0)
);
ALTER TABLE blobs ADD COLUMN shared BYTEA;

-- Nodes of earlier versions insert the content of each blob that they replace or delete into
-- garbage. The trigger counts the reference down instead while other blobs have the content, and
-- then subtracts the charge, which the node has added to usage. This version's nodes count before
-- they insert, so that for them the trigger finds no row.
CREATE FUNCTION release_share() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    left_refs BIGINT;
BEGIN
    SELECT refs - 1 INTO left_refs FROM shares WHERE content = NEW.content FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NEW;
    END IF;
    IF left_refs = 0 THEN
        DELETE FROM shares WHERE content = NEW.content;
        RETURN NEW;
    END IF;
    UPDATE shares SET refs = left_refs WHERE content = NEW.content;
    IF NEW.owner IS NOT NULL AND NEW.charge <> 0 THEN
        -- The id begins with the time in milliseconds, like those of the program.
        INSERT INTO usage (owner, id, bytes, uploads, retained) VALUES (
            NEW.owner, substr(int8send(CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)), 3)
                || substr(uuid_send(gen_random_uuid()), 1, 10),
            0, 0, -NEW.charge);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER garbage_inserted BEFORE INSERT ON garbage FOR EACH ROW EXECUTE FUNCTION release_share();
