-- What reads took last from a session, by the store that took it, so that a
-- charge whose COMMIT was not answered can be asked for: see charges.go. NULL is
-- nothing.
ALTER TABLE sessions ADD COLUMN charges BLOB;

-- The charge of a sale to a read; NULL: it was none, or was given back.
ALTER TABLE sales ADD COLUMN charge BLOB;
