-- The order in which garbage becomes due, so that what is not due costs nothing.
CREATE INDEX garbage_since ON garbage (since, content);
