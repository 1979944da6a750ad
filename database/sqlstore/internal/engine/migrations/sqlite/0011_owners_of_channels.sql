-- A channel counts towards the owner that opened it. Those of earlier versions count
-- towards no owner.
ALTER TABLE channels ADD COLUMN owner BLOB;
ALTER TABLE usage ADD COLUMN channels BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_sums ADD COLUMN channels BIGINT NOT NULL DEFAULT 0;

ALTER TABLE key_groups ADD COLUMN channels BIGINT NOT NULL DEFAULT 0;
