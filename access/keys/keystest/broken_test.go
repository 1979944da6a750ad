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

// Invariant 37.
func TestBrokenKeysAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "a second revoke moves the time", Break: dbtest.Broken[revokesAgain], Caught: []string{"keys/revoke", "keys/racing-revokes"}},
		{Name: "a second revoke revives", Break: dbtest.Broken[revives], Caught: []string{"keys/revoke"}},
		{Name: "forgets expired keys", AfterPurge: `DELETE FROM api_keys WHERE expires IS NOT NULL`, Caught: []string{"keys/stay"}},
		{Name: "the last key sets the limits", Break: dbtest.Broken[lastLimits], Caught: []string{"keys/groups", "keys/racing-creators"}},
		{Name: "no accounts become all accounts", Break: dbtest.Broken[allAccounts], Caught: []string{"keys/accounts"}},
		{Name: "replaces a key of the same id", Schema: dbtest.On(`BEFORE INSERT ON api_keys`, `DELETE FROM api_keys WHERE id = NEW.id`), Caught: []string{"keys/create", "keys/racing-creators"}},
		{Name: "omits revoked keys", Break: dbtest.Broken[listsValid], Caught: []string{"keys/list"}},
		{Name: "skips a key at a page border", Break: dbtest.Broken[skipsKey], Caught: []string{"keys/list"}},
		{Name: "the version does not change", Schema: dbtest.On(`AFTER UPDATE ON keys_version`, `UPDATE keys_version SET version = 7`), Caught: []string{"keys/version"}},
		{Name: "an update revives a revoked key", Schema: dbtest.On(`AFTER UPDATE OF label ON api_keys`, `UPDATE api_keys SET revoked = NULL WHERE id = NEW.id`), Caught: []string{"keys/update"}},
		{Name: "an update changes the group", Break: dbtest.Broken[updateRegroups], Caught: []string{"keys/update"}},
		{Name: "an update forgets the S3 secret", Schema: dbtest.On(`AFTER UPDATE OF label ON api_keys`, `UPDATE api_keys SET s3_secret = NULL WHERE id = NEW.id`), Caught: []string{"keys/update"}},
		{Name: "an update is not atomic", Break: dbtest.Broken[updatesLate], Caught: []string{"keys/racing-updates"}},
		{Name: "an update does not change the version", Break: dbtest.Broken[updatesUnseen], Caught: []string{"keys/version"}},
		{Name: "new limits do not change the version", Break: dbtest.Broken[limitsUnseen], Caught: []string{"keys/version"}},
		{Name: "new limits apply to all groups", Schema: dbtest.On(`AFTER UPDATE ON key_groups`, `UPDATE key_groups SET channels = NEW.channels`), Caught: []string{"keys/group-limits"}},
		{Name: "limits of an unknown group are zero", Break: dbtest.Broken[zeroLimits], Caught: []string{"keys/group-limits"}},
		{Name: "a revoke does not change the version", Break: dbtest.Broken[revokesUnseen], Caught: []string{"keys/version"}},
	})
}

type updatesUnseen struct{ dbtest.Correct }

func (s updatesUnseen) UpdateKey(ctx context.Context, id string, change func(*keys.Key)) (keys.Key, error) {
	return unseen(ctx, s.Correct, func() (keys.Key, error) { return s.Correct.UpdateKey(ctx, id, change) })
}

type limitsUnseen struct{ dbtest.Correct }

func (s limitsUnseen) SetGroupLimits(ctx context.Context, group string, change func(*keys.Limits)) (keys.Limits, error) {
	return unseen(ctx, s.Correct, func() (keys.Limits, error) { return s.Correct.SetGroupLimits(ctx, group, change) })
}

type revokesUnseen struct{ dbtest.Correct }

func (s revokesUnseen) RevokeKey(ctx context.Context, id string) (keys.Key, error) {
	return unseen(ctx, s.Correct, func() (keys.Key, error) { return s.Correct.RevokeKey(ctx, id) })
}

// unseen calls change and restores the version from before it.
func unseen[T any](ctx context.Context, s dbtest.Correct, change func() (T, error)) (T, error) {
	before, err := s.KeysVersion(ctx)
	if err != nil {
		return *new(T), err
	}
	out, err := change()
	if err == nil {
		err = s.Exec(ctx, `UPDATE keys_version SET version = ?`, before)
	}
	return out, err
}

type updateRegroups struct{ dbtest.Correct }

func (s updateRegroups) UpdateKey(ctx context.Context, id string, change func(*keys.Key)) (keys.Key, error) {
	k, err := s.Correct.UpdateKey(ctx, id, change)
	if err != nil {
		return k, err
	}
	changed := k
	change(&changed)
	k.Group = changed.Group
	return k, nil
}

// updatesLate reads the key before the transaction that changes it.
type updatesLate struct{ dbtest.Correct }

func (s updatesLate) UpdateKey(ctx context.Context, id string, change func(*keys.Key)) (keys.Key, error) {
	changed, err := s.Key(ctx, id)
	if err != nil {
		return changed, err
	}
	change(&changed)
	return s.Correct.UpdateKey(ctx, id, func(k *keys.Key) { *k = changed })
}

type zeroLimits struct{ dbtest.Correct }

func (s zeroLimits) GroupLimits(ctx context.Context, group string) (keys.Limits, error) {
	l, err := s.Correct.GroupLimits(ctx, group)
	if errors.Is(err, database.ErrNotFound) {
		err = nil
	}
	return l, err
}

type revokesAgain struct{ dbtest.Correct }

func (s revokesAgain) RevokeKey(ctx context.Context, id string) (keys.Key, error) {
	err := s.Exec(ctx, `UPDATE api_keys SET revoked = NULL WHERE id = $1`, []byte(id))
	out, rerr := s.Correct.RevokeKey(ctx, id)
	return out, errors.Join(err, rerr)
}

type revives struct{ dbtest.Correct }

func (s revives) RevokeKey(ctx context.Context, id string) (keys.Key, error) {
	before, err := s.Key(ctx, id)
	if err != nil || before.Revoked.IsZero() {
		return s.Correct.RevokeKey(ctx, id)
	}
	return before, s.Exec(ctx, `UPDATE api_keys SET revoked = NULL WHERE id = $1`, []byte(id))
}

type lastLimits struct{ dbtest.Correct }

func (s lastLimits) CreateKey(ctx context.Context, k keys.Key) (keys.Key, error) {
	out, err := s.Correct.CreateKey(ctx, k)
	if !errors.Is(err, keys.ErrGroupLimits) {
		return out, err
	}
	limits := k.Limits
	k.Limits = keys.Limits{}
	if out, err = s.Correct.CreateKey(ctx, k); err != nil {
		return out, err
	}
	out.Limits = limits
	return out, s.Exec(ctx, `UPDATE key_groups SET stored_bytes = $2, open_uploads = $3 WHERE name = $1`,
		[]byte(k.Group), limits.StoredBytes, limits.OpenUploads)
}

type allAccounts struct{ dbtest.Correct }

func (s allAccounts) CreateKey(ctx context.Context, k keys.Key) (keys.Key, error) {
	if len(k.Accounts) == 0 {
		k.Accounts = nil
	}
	return s.Correct.CreateKey(ctx, k)
}

type listsValid struct{ dbtest.Correct }

func (s listsValid) ListKeys(ctx context.Context, after string, limit int) ([]keys.Key, error) {
	list, err := s.Correct.ListKeys(ctx, after, limit)
	return slices.DeleteFunc(list, func(k keys.Key) bool { return !k.Revoked.IsZero() }), err
}

type skipsKey struct{ dbtest.Correct }

func (s skipsKey) ListKeys(ctx context.Context, after string, limit int) ([]keys.Key, error) {
	list, err := s.Correct.ListKeys(ctx, after, limit)
	if after != "" && len(list) > 0 {
		list = list[1:]
	}
	return list, err
}
