-- The last charges of reads to a session, so that a charge can be found whose COMMIT
-- was not answered: see charges.go. NULL: none.
ALTER TABLE sessions ADD COLUMN charges BYTEA;

-- The name of the charge of a read. NULL: the sale was to no read, or was returned.
ALTER TABLE sales ADD COLUMN charge BYTEA;
