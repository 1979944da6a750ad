-- A channel counts for the owner that opened it. Those of before are nobody's.
ALTER TABLE channels ADD COLUMN owner BLOB;
ALTER TABLE usage ADD COLUMN channels BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_sums ADD COLUMN channels BIGINT NOT NULL DEFAULT 0;

ALTER TABLE key_groups ADD COLUMN channels BIGINT NOT NULL DEFAULT 0;
