-- A checksum over the columns that never change while a row has its meaning: of blobs the account,
-- the name, content, size, crc64 and part_size; of extents all; of sessions the id, user_identity,
-- channel, total and created. NULL: the row is unchecked, like all rows of earlier versions.
ALTER TABLE blobs ADD COLUMN row_sum BIGINT;
ALTER TABLE extents ADD COLUMN row_sum BIGINT;
ALTER TABLE sessions ADD COLUMN row_sum BIGINT;
