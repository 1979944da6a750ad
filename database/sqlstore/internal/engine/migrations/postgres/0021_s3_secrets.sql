-- A key's S3 secret, sealed with a master key that is not in the database. NULL: it has none.
ALTER TABLE api_keys ADD COLUMN s3_secret BYTEA;
