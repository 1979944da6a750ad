-- Alone: no node of an earlier version runs beside a node with this schema.

-- Grants of keys, in JSON. A key had one, of all names.
ALTER TABLE api_keys RENAME COLUMN scopes TO grants;
UPDATE api_keys SET grants = convert_to('[{"scopes":' || convert_from(grants, 'UTF8') || ',"accounts":' || COALESCE(convert_from(accounts, 'UTF8'), 'null') || '}]', 'UTF8') WHERE grants IS NOT NULL;
ALTER TABLE api_keys DROP COLUMN accounts;
UPDATE keys_version SET version = -1 - version;

-- Nodes of earlier versions cannot join any more.
ALTER TABLE nodes RENAME COLUMN settings TO agreed;
