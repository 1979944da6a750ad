package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"sluice/access/actions"
	"sluice/access/places"
	"sluice/blob"
	"sluice/internal/units"
	"sluice/metastore"
	"sluice/wire"
)

// Bounds of how long a version is kept.
const (
	minKeepFor = time.Second
	maxKeepFor = 100 * 365 * 24 * time.Hour
)

// Keepings returns which versions accounts keep, sorted by account: those that the administrator
// administers as a whole, if they keep versions, or did.
func (s *Service) Keepings(ctx context.Context, by By, after string, limit int) (out wire.KeepingPage, err error) {
	a, err := s.actorOf(ctx, by)
	if err != nil {
		return out, err
	}
	list, err := administered(a, after, limit+1, func(limit int) ([]metastore.AccountKeeping, error) {
		return s.store.ListKeeping(ctx, after, limit)
	}, func(account string) (metastore.AccountKeeping, bool, error) {
		k, err := s.store.Keeping(ctx, account)
		return metastore.AccountKeeping{Account: account, Keeping: k}, k.State != metastore.KeepNever, err
	})
	if err != nil {
		return out, err
	}
	if len(list) > limit {
		list = list[:limit]
		out.Next = list[limit-1].Account
	}
	out.Accounts = []wire.Keeping{}
	for _, k := range list {
		out.Accounts = append(out.Accounts, keepingOf(k.Account, k.Keeping))
	}
	return out, nil
}

// administered returns up to limit settings of accounts behind an account: all lists them for
// everybody, and one returns an account's, if it has one. An administrator with grants has few
// accounts.
func administered[T any](a actor, after string, limit int, all func(limit int) ([]T, error), one func(account string) (T, bool, error)) (list []T, err error) {
	if a.everything() {
		return all(limit)
	}
	var accounts []string
	for _, g := range a.key.Grants {
		if administers(g) && g.Prefix == "" {
			accounts = append(accounts, g.Accounts...)
		}
	}
	slices.Sort(accounts)
	for _, account := range slices.Compact(accounts) {
		if account <= after || len(list) == limit {
			continue
		}
		setting, found, err := one(account)
		if err != nil {
			return nil, err
		}
		if found {
			list = append(list, setting)
		}
	}
	return list, nil
}

// Keeping returns which versions an account keeps.
func (s *Service) Keeping(ctx context.Context, by By, account string) (out wire.Keeping, err error) {
	if account, err = blob.ParseAccount(account); err != nil {
		return out, err
	}
	a, err := s.actorOf(ctx, by)
	if err == nil {
		err = a.mayKeep(account)
	}
	if err != nil {
		return out, err
	}
	k, err := s.store.Keeping(ctx, account)
	return keepingOf(account, k), err
}

// mayKeep returns why they may not see and set which versions the account keeps, or nil.
func (a actor) mayKeep(account string) error {
	if !a.administersPlace(places.Place{Account: account}) {
		return fmt.Errorf("%w: it must administer all blobs in the account", ErrBeyond)
	}
	return nil
}

// SetKeeping sets which versions an account keeps. match is a condition on the setting before; nil:
// there is none.
func (s *Service) SetKeeping(ctx context.Context, by By, account string, match func(etag string) bool, in wire.SetKeeping) (out wire.Keeping, err error) {
	keep, err := parseKeeping(in)
	if err != nil {
		return out, err
	}
	return s.ChangeKeeping(ctx, by, account, match, func(now *metastore.Keeping) error {
		if now.State == metastore.KeepNever && keep.State == metastore.KeepOff {
			if keep.For != 0 || keep.Most != 0 || in.Locks != nil {
				return fmt.Errorf("%w: the account has no versions, so for, most and locks need keep %q", ErrInvalid, wire.KeepOn)
			}
			return nil
		}
		now.State, now.For, now.Most = keep.State, keep.For, keep.Most
		if in.Locks != nil {
			now.Locks, now.LockMode, now.LockFor, now.LockMost = true, keep.LockMode, keep.LockFor, cmp.Or(keep.LockMost, now.LockMost)
		}
		return nil
	})
}

// parseKeeping returns the setting that a request describes.
func parseKeeping(in wire.SetKeeping) (k metastore.Keeping, err error) {
	if in.For != "" {
		k.For, err = units.ParseDuration(in.For)
	}
	switch {
	case err != nil, in.For != "" && (k.For < minKeepFor || k.For > maxKeepFor):
		return k, fmt.Errorf("%w: for is a duration from %s to %s, such as 30d or 720h; without it versions are kept for ever", ErrInvalid, minKeepFor, units.FormatDuration(maxKeepFor))
	case in.Most < 0 || in.Most > metastore.MaxKept:
		return k, fmt.Errorf("%w: most is 1 to %d; without it any number is kept", ErrInvalid, metastore.MaxKept)
	}
	k.For = k.For.Round(time.Microsecond)
	k.Most = in.Most
	if err := parseLocks(in.Locks, &k); err != nil {
		return k, err
	}
	switch in.Keep {
	case wire.KeepOn:
		k.State = metastore.KeepOn
	case wire.KeepOff:
		k.State = metastore.KeepOff
	default:
		return k, fmt.Errorf("%w: keep is %q or %q", ErrInvalid, wire.KeepOn, wire.KeepOff)
	}
	return k, nil
}

// parseLocks sets the members of a setting that are about locks.
func parseLocks(in *wire.LockSetting, k *metastore.Keeping) (err error) {
	if in == nil {
		return nil
	}
	k.LockMode = metastore.LockMode(in.Mode)
	for text, to := range map[string]*time.Duration{in.For: &k.LockFor, in.Most: &k.LockMost} {
		if text == "" {
			continue
		}
		if *to, err = units.ParseDuration(text); err != nil || *to < minKeepFor {
			return fmt.Errorf("%w: for and most of locks are durations from %v on, such as 30d or 720h", ErrInvalid, minKeepFor)
		}
	}
	return nil
}

// ChangeKeeping changes which versions an account keeps, and returns that as stored. change may be
// called several times. match is as in SetKeeping.
func (s *Service) ChangeKeeping(
	ctx context.Context, by By, account string, match func(etag string) bool, change func(*metastore.Keeping) error,
) (out wire.Keeping, err error) {
	if account, err = blob.ParseAccount(account); err != nil {
		return out, err
	}
	defer s.opt.SettingsChanged()
	err = s.decide(ctx, by, func(a actor) error {
		if err := a.mayKeep(account); err != nil {
			return err
		}
		is, err := s.store.SetKeeping(ctx, account, func(now *metastore.Keeping) (*actions.Act, error) {
			before := keepingOf(account, *now)
			if match != nil && !match(before.ETag) {
				return nil, ErrChanged
			}
			most := now.LockMost
			if err := change(now); err != nil {
				return nil, err
			}
			if now.LockMost != most && !a.everything() {
				return nil, fmt.Errorf("%w: the longest time of locks", ErrEverything)
			}
			after := keepingOf(account, *now)
			if after.ETag == before.ETag {
				return nil, nil
			}
			return a.act("versions.set", account, []string{account}, before.SetKeeping, after.SetKeeping)
		})
		out = keepingOf(account, is)
		return err
	})
	return out, err
}

// durationOf returns a duration's text, or "" for none.
func durationOf(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return d.String()
}

// keepingOf returns which versions an account keeps. Its ETag differs for different settings.
func keepingOf(account string, k metastore.Keeping) wire.Keeping {
	out := wire.Keeping{Account: account, SetKeeping: wire.SetKeeping{Keep: wire.KeepOff, Most: k.Most}, Changed: k.Changed, Pending: k.Pending, Handled: k.Handled}
	if k.State == metastore.KeepOn {
		out.Keep = wire.KeepOn
	}
	out.For = durationOf(k.For)
	text := fmt.Appendf(nil, "%q %d %d %d", account, k.State, k.For, k.Most)
	if k.Locks {
		out.Locks = &wire.LockSetting{Mode: string(k.LockMode), For: durationOf(k.LockFor), Most: durationOf(k.LockMost)}
		text = fmt.Appendf(text, " %+v", *out.Locks)
	}
	sum := sha256.Sum256(text)
	out.ETag = fmt.Sprintf(`"%x"`, sum[:16])
	return out
}
