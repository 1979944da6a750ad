-- Alone: no node of an earlier version runs beside a node with this schema.

-- Grants of keys, in JSON. A key had one, of all names.
ALTER TABLE api_keys RENAME COLUMN scopes TO grants;
UPDATE api_keys SET grants = CAST('[{"scopes":' || CAST(grants AS TEXT) || ',"accounts":' || COALESCE(CAST(accounts AS TEXT), 'null') || '}]' AS BLOB) WHERE grants IS NOT NULL;
ALTER TABLE api_keys DROP COLUMN accounts;
UPDATE keys_version SET version = -1 - version;

-- Nodes of earlier versions cannot join any more.
ALTER TABLE nodes RENAME COLUMN settings TO agreed;
