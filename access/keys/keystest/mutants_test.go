package keystest_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"sluice/access/keys"
	"sluice/database"
	"sluice/database/dbtest"
)

func TestBrokenKeysAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "a second revoke moves the time", Break: func(h dbtest.Handle, path string) dbtest.Handle { return revokesAgain{h, path} }, Caught: []string{"keys/revoke", "keys/racing-revokes"}},
		{Name: "a second revoke revives", Break: func(h dbtest.Handle, path string) dbtest.Handle { return revives{h, path} }, Caught: []string{"keys/revoke"}},
		{Name: "forgets expired keys", Break: func(h dbtest.Handle, path string) dbtest.Handle { return forgetsExpired{h, path} }, Caught: []string{"keys/stay"}},
		{Name: "the last key sets the limits", Break: func(h dbtest.Handle, path string) dbtest.Handle { return lastLimits{h, path} }, Caught: []string{"keys/groups", "keys/racing-creators"}},
		{Name: "no accounts become all accounts", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return allAccounts{h} }, Caught: []string{"keys/accounts"}},
		{Name: "replaces a key of the same id", Break: func(h dbtest.Handle, path string) dbtest.Handle { return replacesKey{h, path} }, Caught: []string{"keys/create", "keys/racing-creators"}},
		{Name: "omits revoked keys", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return listsValid{h} }, Caught: []string{"keys/list"}},
		{Name: "skips a key at a page border", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return skipsKey{h} }, Caught: []string{"keys/list"}},
		{Name: "the version does not change", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return stillVersion{h} }, Caught: []string{"keys/version"}},
		{Name: "an update revives a revoked key", Break: func(h dbtest.Handle, path string) dbtest.Handle { return updateRevives{h, path} }, Caught: []string{"keys/update"}},
		{Name: "an update changes the group", Break: func(h dbtest.Handle, path string) dbtest.Handle { return updateRegroups{h, path} }, Caught: []string{"keys/update"}},
		{Name: "an update is not atomic", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return updatesLate{h} }, Caught: []string{"keys/racing-updates"}},
		{Name: "an update does not change the version", Break: func(h dbtest.Handle, path string) dbtest.Handle { return quietUpdate{h, path} }, Caught: []string{"keys/version"}},
		{Name: "new limits do not change the version", Break: func(h dbtest.Handle, path string) dbtest.Handle { return quietLimits{h, path} }, Caught: []string{"keys/version"}},
		{Name: "new limits apply to all groups", Break: func(h dbtest.Handle, path string) dbtest.Handle { return limitsForAll{h, path} }, Caught: []string{"keys/group-limits"}},
		{Name: "limits of an unknown group are zero", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return zeroLimits{h} }, Caught: []string{"keys/group-limits"}},
		{Name: "a revoke does not change the version", Break: func(h dbtest.Handle, path string) dbtest.Handle { return quietRevoke{h, path} }, Caught: []string{"keys/version"}},
	})
}

type updateRevives struct {
	dbtest.Handle
	path string
}

func (s updateRevives) UpdateKey(ctx context.Context, id string, change func(*keys.Key)) (keys.Key, error) {
	k, err := s.Handle.UpdateKey(ctx, id, change)
	return k, errors.Join(err, dbtest.Query(ctx, s.path, `UPDATE api_keys SET revoked = NULL WHERE id = $1`, []byte(id)))
}

type updateRegroups struct {
	dbtest.Handle
	path string
}

func (s updateRegroups) UpdateKey(ctx context.Context, id string, change func(*keys.Key)) (keys.Key, error) {
	k, err := s.Handle.UpdateKey(ctx, id, change)
	if err != nil {
		return k, err
	}
	changed := k
	change(&changed)
	k.Group = changed.Group
	return k, nil
}

// updatesLate reads the key before the transaction that changes it.
type updatesLate struct{ dbtest.Handle }

func (s updatesLate) UpdateKey(ctx context.Context, id string, change func(*keys.Key)) (keys.Key, error) {
	changed, err := s.Key(ctx, id)
	if err != nil {
		return changed, err
	}
	change(&changed)
	return s.Handle.UpdateKey(ctx, id, func(k *keys.Key) { *k = changed })
}

type quietUpdate struct {
	dbtest.Handle
	path string
}

func (s quietUpdate) UpdateKey(ctx context.Context, id string, change func(*keys.Key)) (keys.Key, error) {
	k, err := s.Handle.UpdateKey(ctx, id, change)
	if err == nil {
		err = dbtest.Query(ctx, s.path, `UPDATE keys_version SET version = version - 1`)
	}
	return k, err
}

type quietLimits struct {
	dbtest.Handle
	path string
}

func (s quietLimits) SetGroupLimits(ctx context.Context, group string, change func(*keys.Limits)) (keys.Limits, error) {
	l, err := s.Handle.SetGroupLimits(ctx, group, change)
	if err == nil {
		err = dbtest.Query(ctx, s.path, `UPDATE keys_version SET version = version - 1`)
	}
	return l, err
}

type limitsForAll struct {
	dbtest.Handle
	path string
}

func (s limitsForAll) SetGroupLimits(ctx context.Context, group string, change func(*keys.Limits)) (keys.Limits, error) {
	l, err := s.Handle.SetGroupLimits(ctx, group, change)
	if err == nil {
		err = dbtest.Query(ctx, s.path, `UPDATE key_groups SET channels = $1`, l.Channels)
	}
	return l, err
}

type zeroLimits struct{ dbtest.Handle }

func (s zeroLimits) GroupLimits(ctx context.Context, group string) (keys.Limits, error) {
	l, err := s.Handle.GroupLimits(ctx, group)
	if errors.Is(err, database.ErrNotFound) {
		err = nil
	}
	return l, err
}

type revokesAgain struct {
	dbtest.Handle
	path string
}

func (s revokesAgain) RevokeKey(ctx context.Context, id string) (keys.Key, error) {
	err := dbtest.Query(ctx, s.path, `UPDATE api_keys SET revoked = NULL WHERE id = $1`, []byte(id))
	out, rerr := s.Handle.RevokeKey(ctx, id)
	return out, errors.Join(err, rerr)
}

type revives struct {
	dbtest.Handle
	path string
}

func (s revives) RevokeKey(ctx context.Context, id string) (keys.Key, error) {
	before, err := s.Key(ctx, id)
	if err != nil || before.Revoked.IsZero() {
		return s.Handle.RevokeKey(ctx, id)
	}
	return before, dbtest.Query(ctx, s.path, `UPDATE api_keys SET revoked = NULL WHERE id = $1`, []byte(id))
}

type forgetsExpired struct {
	dbtest.Handle
	path string
}

func (s forgetsExpired) Purge(ctx context.Context, limit int) (int, error) {
	n, err := s.Handle.Purge(ctx, limit)
	return n, errors.Join(err, dbtest.Query(ctx, s.path, `DELETE FROM api_keys WHERE expires IS NOT NULL`))
}

type lastLimits struct {
	dbtest.Handle
	path string
}

func (s lastLimits) CreateKey(ctx context.Context, k keys.Key) (keys.Key, error) {
	out, err := s.Handle.CreateKey(ctx, k)
	if !errors.Is(err, keys.ErrGroupLimits) {
		return out, err
	}
	limits := k.Limits
	k.Limits = keys.Limits{}
	if out, err = s.Handle.CreateKey(ctx, k); err != nil {
		return out, err
	}
	out.Limits = limits
	return out, dbtest.Query(ctx, s.path, `UPDATE key_groups SET stored_bytes = $2, open_uploads = $3 WHERE name = $1`,
		[]byte(k.Group), limits.StoredBytes, limits.OpenUploads)
}

type allAccounts struct{ dbtest.Handle }

func (s allAccounts) CreateKey(ctx context.Context, k keys.Key) (keys.Key, error) {
	if len(k.Accounts) == 0 {
		k.Accounts = nil
	}
	return s.Handle.CreateKey(ctx, k)
}

type replacesKey struct {
	dbtest.Handle
	path string
}

func (s replacesKey) CreateKey(ctx context.Context, k keys.Key) (keys.Key, error) {
	err := dbtest.Query(ctx, s.path, `DELETE FROM api_keys WHERE id = $1`, []byte(k.ID))
	out, cerr := s.Handle.CreateKey(ctx, k)
	return out, errors.Join(err, cerr)
}

type listsValid struct{ dbtest.Handle }

func (s listsValid) ListKeys(ctx context.Context, after string, limit int) ([]keys.Key, error) {
	list, err := s.Handle.ListKeys(ctx, after, limit)
	return slices.DeleteFunc(list, func(k keys.Key) bool { return !k.Revoked.IsZero() }), err
}

type skipsKey struct{ dbtest.Handle }

func (s skipsKey) ListKeys(ctx context.Context, after string, limit int) ([]keys.Key, error) {
	list, err := s.Handle.ListKeys(ctx, after, limit)
	if after != "" && len(list) > 0 {
		list = list[1:]
	}
	return list, err
}

type stillVersion struct{ dbtest.Handle }

func (s stillVersion) KeysVersion(context.Context) (int64, error) { return 7, nil }

type quietRevoke struct {
	dbtest.Handle
	path string
}

func (s quietRevoke) RevokeKey(ctx context.Context, id string) (keys.Key, error) {
	out, err := s.Handle.RevokeKey(ctx, id)
	if err != nil {
		return out, err
	}
	return out, dbtest.Query(ctx, s.path, `UPDATE keys_version SET version = version - 1`)
}
