-- What the writer stated about a blob, in addition to its type: the id of the content, then the
-- text. NULL: nothing. Nodes of earlier versions replace a blob without writing the column, so the
-- text is ignored if the id is not that of the content of the row.
ALTER TABLE blobs ADD COLUMN metadata BLOB;

-- The text without an id, for the blob that the upload becomes.
ALTER TABLE uploads ADD COLUMN metadata BLOB;
