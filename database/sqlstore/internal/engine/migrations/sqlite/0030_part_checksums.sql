-- The checksum besides crc64 that a part keeps, in an upload and in a content: the algorithm, a space
-- and the value, as S3 names them. NULL: none, like all rows of earlier versions.
ALTER TABLE parts ADD COLUMN checksum BLOB;
ALTER TABLE starts ADD COLUMN checksum BLOB;
