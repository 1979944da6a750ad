-- For lists of open uploads by name. Names are longer than an index's entries may be.
CREATE INDEX uploads_named ON uploads (account, substr(name, 1, 512)) WHERE state = 0;
