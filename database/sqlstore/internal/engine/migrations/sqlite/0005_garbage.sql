-- The order in which garbage becomes due. Contents that are not due are not read.
CREATE INDEX garbage_since ON garbage (since, content);
