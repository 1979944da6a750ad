package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/database"
	"sluice/database/sqlstore/internal/acts"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/requests"
)

// keyQuery begins a query for keys with their groups' limits. Its columns are in keyFields' order.
var keyQuery = `SELECT k.id, k.hash, k.label, k.grants, k.key_group, k.created, k.expires, k.revoked, k.s3_secret,
	` + limitColumns + ` FROM api_keys k JOIN key_groups g ON g.name = k.key_group `

func keyFields(k *keys.Key) engine.Args {
	return append(engine.Args{
		&k.ID, (*hash)(&k.Hash), &k.Label, (*grants)(&k.Grants), &k.Group,
		(*engine.Instant)(&k.Created), (*engine.Instant)(&k.Expires), (*engine.Instant)(&k.Revoked), &k.S3Secret,
	}, limitFields(&k.Limits)...)
}

// limitNames are the columns with a group's limits, in limitFields' order. limitColumns are the
// same in a query on the table g.
var (
	limitNames   = limitNamesAfter("")
	limitColumns = limitNamesAfter("g.")
)

func limitNamesAfter(prefix string) string {
	var names []string
	for _, k := range keys.LimitKinds {
		names = append(names, prefix+k.Column())
	}
	return strings.Join(names, ", ")
}

func limitFields(l *keys.Limits) engine.Args {
	var fields engine.Args
	for _, k := range keys.LimitKinds {
		fields = append(fields, (*engine.Integer)(k.Of(l)))
	}
	return fields
}

// hash scans a SHA-256.
type hash [32]byte

func (h *hash) Scan(src any) error {
	b, ok := src.([]byte)
	if !ok || len(b) != len(h) {
		return fmt.Errorf("%T of %d bytes is not a SHA-256", src, len(b))
	}
	copy(h[:], b)
	return nil
}

// grants are a key's stored grants. JSON has their strings in base64, because they are any bytes. A
// nil list of accounts is null and differs from an empty one.
type grants []keys.Grant

// grantColumn is a grant in the column.
type grantColumn struct {
	Scopes   [][]byte `json:"scopes"`
	Accounts [][]byte `json:"accounts"`
	Prefix   []byte   `json:"prefix,omitempty"`
}

func (g *grants) Scan(src any) error {
	*g = nil
	if src == nil {
		return nil
	}
	text, ok := src.([]byte)
	if !ok {
		return fmt.Errorf("%T is not a list of grants", src)
	}
	var stored []grantColumn
	if err := json.Unmarshal(text, &stored); err != nil {
		return err
	}
	*g = make(grants, 0, len(stored))
	for _, s := range stored {
		*g = append(*g, keys.Grant{Scopes: listOf[string](s.Scopes), Accounts: listOf[string](s.Accounts), Prefix: string(s.Prefix)})
	}
	return nil
}

func (g grants) column() (any, error) {
	if g == nil {
		return nil, nil
	}
	stored := make([]grantColumn, 0, len(g))
	for _, k := range g {
		stored = append(stored, grantColumn{Scopes: listOf[[]byte](k.Scopes), Accounts: listOf[[]byte](k.Accounts), Prefix: []byte(k.Prefix)})
	}
	return json.Marshal(stored)
}

// listOf converts a list. nil stays nil.
func listOf[To, From string | []byte](list []From) []To {
	if list == nil {
		return nil
	}
	converted := make([]To, 0, len(list))
	for _, item := range list {
		converted = append(converted, To(item))
	}
	return converted
}

// CreateKey implements keys.Store.
func (s *Store) CreateKey(ctx context.Context, k keys.Key, act *actions.Act, once *database.Idempotency) (keys.Key, error) {
	if k.ID == "" || k.Group == "" {
		return keys.Key{}, errors.New("sqlstore: a key needs an id and a group")
	}
	k.Expires, k.Revoked = engine.Truncate(k.Expires), time.Time{}
	return engine.ResultOf(ctx, s.in.Write, func(t storeTx) (keys.Key, error) {
		if once == nil {
			return t.createKey(k, act)
		}
		id, found, err := requests.Find(t.Tx, once)
		if err != nil {
			return k, err
		}
		if found {
			return t.key(string(id))
		}
		created, err := t.createKey(k, act)
		if err != nil {
			return created, err
		}
		return created, requests.Record(t.Tx, once, []byte(k.ID))
	})
}

func (t storeTx) createKey(k keys.Key, act *actions.Act) (keys.Key, error) {
	k.Created = t.Now
	if err := t.addKey(k); err != nil {
		return k, err
	}
	if act != nil {
		if err := acts.CheckBound(t.Tx, act.Bounds.Keys, "keys in a group, also expired and revoked ones", `api_keys WHERE key_group = $1`, []byte(k.Group)); err != nil {
			return k, err
		}
	}
	var err error
	if k.Limits, err = t.joinGroup(k.Group, k.Limits); err != nil {
		return k, err
	}
	return k, t.keysChanged(act)
}

func (t storeTx) addKey(k keys.Key) error {
	granted, err := grants(k.Grants).column()
	if err != nil {
		return err
	}
	n, err := t.Exec(`INSERT INTO api_keys (id, hash, label, grants, key_group, created, expires, revoked, s3_secret)
		VALUES ($1, $2, $3, $4, $5, $6, $7, NULL, $8) ON CONFLICT (id) DO NOTHING`,
		[]byte(k.ID), k.Hash[:], []byte(k.Label), granted, []byte(k.Group), engine.Micros(k.Created), engine.Micros(k.Expires),
		engine.BytesColumn(k.S3Secret))
	if err == nil && n == 0 {
		err = fmt.Errorf("key: %w", database.ErrExists)
	}
	return err
}

// joinGroup returns a group's limits. If the group is new, it gets the given limits.
func (t storeTx) joinGroup(name string, limits keys.Limits) (keys.Limits, error) {
	values, in := "$1", engine.Args{[]byte(name)}
	for _, k := range keys.LimitKinds {
		in = append(in, *k.Of(&limits))
		values += fmt.Sprintf(", $%d", len(in))
	}
	n, err := t.Exec(`INSERT INTO key_groups (name, `+limitNames+`) VALUES (`+values+`) ON CONFLICT (name) DO NOTHING`, in...)
	if err != nil || n > 0 {
		return limits, err
	}
	have, err := t.groupLimits(name)
	if err == nil && limits != have && limits != (keys.Limits{}) {
		err = fmt.Errorf("group %q: %w", name, keys.ErrGroupLimits)
	}
	return have, err
}

// groupLimits returns a group's limits, or database.ErrNotFound.
func (t storeTx) groupLimits(name string) (keys.Limits, error) {
	var limits keys.Limits
	found, err := t.Row(`SELECT `+limitColumns+` FROM key_groups g WHERE g.name = $1`, engine.Args{[]byte(name)}, limitFields(&limits)...)
	if err == nil && !found {
		err = fmt.Errorf("group: %w", database.ErrNotFound)
	}
	return limits, err
}

// GroupLimits implements keys.Store.
func (s *Store) GroupLimits(ctx context.Context, group string) (keys.Limits, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t storeTx) (keys.Limits, error) { return t.groupLimits(group) })
}

// SetGroupLimits implements keys.Store.
func (s *Store) SetGroupLimits(ctx context.Context, group string, change func(*keys.Limits), act *actions.Act) (keys.Limits, error) {
	return engine.ResultOf(ctx, s.in.Write, func(t storeTx) (keys.Limits, error) {
		limits, err := t.groupLimits(group)
		if err != nil {
			return limits, err
		}
		before := limits
		if change(&limits); limits == before {
			return limits, nil
		}
		var sets []string
		in := engine.Args{[]byte(group)}
		for _, k := range keys.LimitKinds {
			in = append(in, *k.Of(&limits))
			sets = append(sets, fmt.Sprintf("%s = $%d", k.Column(), len(in)))
		}
		if _, err := t.Exec(`UPDATE key_groups SET `+strings.Join(sets, ", ")+` WHERE name = $1`, in...); err != nil {
			return limits, err
		}
		return limits, t.keysChanged(act)
	})
}

// ListGroups implements keys.Store.
func (s *Store) ListGroups(ctx context.Context, after string, limit int) ([]keys.Group, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t storeTx) ([]keys.Group, error) {
		var g keys.Group
		return engine.Collect(t.Tx, `SELECT g.name, `+limitColumns+` FROM key_groups g WHERE g.name > $1 ORDER BY g.name LIMIT ($2 + 0)`,
			engine.Args{[]byte(after), int64(limit)}, append(engine.Args{&g.Name}, limitFields(&g.Limits)...), &g)
	})
}

// ListActions implements actions.Store.
func (s *Store) ListActions(ctx context.Context, before string, limit int) ([]actions.Action, error) {
	return engine.ResultOf(ctx, s.in.ReadList, func(t storeTx) ([]actions.Action, error) { return acts.List(t.Tx, before, limit) })
}

// PurgeActions implements actions.Store.
func (s *Store) PurgeActions(ctx context.Context, keep time.Duration, limit int) (int, error) {
	return purge(ctx, s.db.WriteForDeletion, limit, func(t *engine.Tx, limit int) (int, error) { return acts.Purge(t, keep, limit) })
}

// keysChanged records the act, and sets a KeysVersion that there never was, even if the database
// was set back and keys are changed in another way. Concurrent changes of keys wait for each other,
// which is acceptable because they are rare.
func (t storeTx) keysChanged(act *actions.Act) error {
	if err := acts.Record(t.Tx, act); err != nil {
		return err
	}
	_, err := t.Exec(`UPDATE keys_version SET version = $1`, rand.Int64())
	return err
}

// Key implements keys.Store.
func (s *Store) Key(ctx context.Context, id string) (keys.Key, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t storeTx) (keys.Key, error) { return t.key(id) })
}

func (t storeTx) key(id string) (keys.Key, error) {
	var k keys.Key
	found, err := t.Row(keyQuery+`WHERE k.id = $1`, engine.Args{[]byte(id)}, keyFields(&k)...)
	if err == nil && !found {
		err = fmt.Errorf("key: %w", database.ErrNotFound)
	}
	if err != nil {
		return keys.Key{}, err
	}
	return k, nil
}

// UpdateKey implements keys.Store.
func (s *Store) UpdateKey(ctx context.Context, id string, change func(*keys.Key) error, act *actions.Act) (keys.Key, error) {
	return engine.ResultOf(ctx, s.in.Write, func(t storeTx) (keys.Key, error) {
		k, err := t.key(id)
		if err != nil {
			return k, err
		}
		before, changed := k, k
		if err := change(&changed); err != nil {
			return k, err
		}
		k.Label, k.Grants, k.S3Secret, k.Hash = changed.Label, changed.Grants, changed.S3Secret, changed.Hash
		k.Expires = engine.Truncate(changed.Expires)
		if reflect.DeepEqual(k, before) {
			return k, nil
		}
		granted, err := grants(k.Grants).column()
		if err != nil {
			return k, err
		}
		if _, err := t.Exec(`UPDATE api_keys SET label = $2, grants = $3, expires = $4, s3_secret = $5, hash = $6 WHERE id = $1`,
			[]byte(id), []byte(k.Label), granted, engine.Micros(k.Expires), engine.BytesColumn(k.S3Secret), k.Hash[:]); err != nil {
			return k, err
		}
		return k, t.keysChanged(act)
	})
}

// ListKeys implements keys.Store.
func (s *Store) ListKeys(ctx context.Context, after string, limit int) ([]keys.Key, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t storeTx) ([]keys.Key, error) {
		var k keys.Key
		return engine.Collect(t.Tx, keyQuery+`WHERE k.id > $1 ORDER BY k.id LIMIT ($2 + 0)`,
			engine.Args{[]byte(after), int64(limit)}, keyFields(&k), &k)
	})
}

// RevokeKey implements keys.Store.
func (s *Store) RevokeKey(ctx context.Context, id string, act *actions.Act) (keys.Key, error) {
	return engine.ResultOf(ctx, s.in.Write, func(t storeTx) (keys.Key, error) {
		n, err := t.Exec(`UPDATE api_keys SET revoked = $2 WHERE id = $1 AND revoked IS NULL`, []byte(id), engine.Micros(t.Now))
		if err == nil && n > 0 {
			err = t.keysChanged(act)
		}
		if err != nil {
			return keys.Key{}, err
		}
		return t.key(id)
	})
}

// KeysVersion implements keys.Store.
func (s *Store) KeysVersion(ctx context.Context) (int64, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t storeTx) (version int64, err error) {
		_, err = t.Row(`SELECT version FROM keys_version`, nil, (*engine.Integer)(&version))
		return version, err
	})
}
