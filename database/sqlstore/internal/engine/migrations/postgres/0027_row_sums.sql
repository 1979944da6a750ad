-- A checksum over the columns that never change while a row has its meaning: of blobs the account,
-- the name, content, size, crc64 and part_size; of extents all; of sessions the id, user_identity,
-- channel, total and created. NULL: the row is unchecked, like all rows of earlier versions.
ALTER TABLE blobs ADD COLUMN row_sum BIGINT;
ALTER TABLE extents ADD COLUMN row_sum BIGINT;
ALTER TABLE sessions ADD COLUMN row_sum BIGINT;

-- Nodes of earlier versions change these columns without knowing the checksum. The row is unchecked
-- from then on. The triggers' names come after those of the triggers that change columns.
CREATE FUNCTION forget_row_sum() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.row_sum := NULL;
    RETURN NEW;
END
$$;
CREATE TRIGGER blobs_without_sum BEFORE UPDATE ON blobs FOR EACH ROW
    WHEN (NEW.row_sum = OLD.row_sum AND (NEW.account, NEW.name_head, NEW.name_hash, NEW.name_tail, NEW.content, NEW.size, NEW.crc64, NEW.part_size)
        IS DISTINCT FROM (OLD.account, OLD.name_head, OLD.name_hash, OLD.name_tail, OLD.content, OLD.size, OLD.crc64, OLD.part_size))
    EXECUTE FUNCTION forget_row_sum();
CREATE TRIGGER extents_without_sum BEFORE UPDATE ON extents FOR EACH ROW
    WHEN (NEW.row_sum = OLD.row_sum AND (NEW.content, NEW.part, NEW.off, NEW.size, NEW.blocks, NEW.object)
        IS DISTINCT FROM (OLD.content, OLD.part, OLD.off, OLD.size, OLD.blocks, OLD.object))
    EXECUTE FUNCTION forget_row_sum();
CREATE TRIGGER sessions_without_sum BEFORE UPDATE ON sessions FOR EACH ROW
    WHEN (NEW.row_sum = OLD.row_sum AND (NEW.id, NEW.user_identity, NEW.channel, NEW.total, NEW.created)
        IS DISTINCT FROM (OLD.id, OLD.user_identity, OLD.channel, OLD.total, OLD.created))
    EXECUTE FUNCTION forget_row_sum();
