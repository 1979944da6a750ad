package metatest

import (
	"errors"
	"fmt"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

var lockChecks = []dbtest.Check{
	check("locks/ways", lockWays),
	check("locks/changes", lockChanges),
	check("locks/bypass", lockBypass),
	check("locks/new", locksOfCommits),
	check("locks/setting", lockSetting),
	check("locks/surplus", lockSurplus),
	check("locks/races", lockRaces),
}

const lockedFor = 48 * time.Hour

// lock makes account a keep versions with locks.
func (p *probe) lock() {
	p.setLocks(func(k *metastore.Keeping) { k.State, k.Locks = metastore.KeepOn, true })
}

// applied applies changed settings to all versions.
func (p *probe) applied() {
	for n := 1; n > 0; {
		n = dbtest.Value(p.Store.ApplyKeeping(p.Ctx, 2))
	}
}

func (p *probe) setLocks(change func(*metastore.Keeping)) metastore.Keeping {
	return dbtest.Value(p.trySetLocks(change))
}

func (p *probe) trySetLocks(change func(*metastore.Keeping)) (metastore.Keeping, error) {
	return p.Store.SetKeeping(p.Ctx, "a", func(k *metastore.Keeping) (*actions.Act, error) {
		change(k)
		return nil, nil
	})
}

// retention returns a lock that ends in a time.
func (p *probe) retention(mode metastore.LockMode, in time.Duration) metastore.Lock {
	return metastore.Lock{Mode: mode, Until: p.Clock.Now().Truncate(time.Second).Add(in)}
}

func versionOf(b metastore.Blob) metastore.VersionName {
	return metastore.VersionName{BlobName: blobName(b), Version: metastore.VersionOf(&b)}
}

// bypassing permits a bypass, without a record.
func bypassing(*metastore.Blob, metastore.Lock) (*actions.Act, error) { return nil, nil }

// delete deletes a version for good.
func (p *probe) delete(b metastore.Blob, bypass metastore.Bypass) (bool, error) {
	r, err := p.Store.DeleteVersion(p.Ctx, metastore.Deletion{VersionName: versionOf(b), Bypass: bypass})
	return r.Existed, err
}

// opened returns the error of opening a version.
func (p *probe) opened(b metastore.Blob) error {
	_, _, err := p.Store.OpenVersion(p.Ctx, versionOf(b))
	return err
}

// ways are everything by which a name's current blob, or a version, could be lost.
var ways = map[string]func(p *probe, b metastore.Blob){
	"replace": func(p *probe, b metastore.Blob) { p.Put("a", b.Name) },
	"rules": func(p *probe, b metastore.Blob) {
		p.Put("a", b.Name)
		p.Put("a", b.Name)
		p.setRules("a", metastore.Rule{ID: "r", Prefix: b.Name, ExpireOn: metastore.NextMidnight(p.Clock.Now()).AddDate(0, 0, -1), DropBeyond: 1})
		p.Must(p.applyRules(2) == 1, "the rules took %+v", dbtest.Value(p.Store.Rules(p.Ctx, "a")).Last)
		p.setRules("a")
	},
	"remove": func(p *probe, b metastore.Blob) { p.remove("a", b.Name) },
	"copy over": func(p *probe, b metastore.Blob) {
		other, _ := p.Put("a", "other")
		p.copied(other, metastore.Blob{Account: "a", Name: b.Name})
	},
	"move away": func(p *probe, b metastore.Blob) {
		dbtest.Value(p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(b), To: named("moved")}))
	},
	"move over": func(p *probe, b metastore.Blob) {
		other, _ := p.Put("a", "other")
		dbtest.Value(p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(other), To: blobName(b)}))
	},
	"complete": func(p *probe, b metastore.Blob) {
		id := fmt.Sprint("upload", p.Next())
		p.Begin(id, "a", b.Name)
		p.part(id, 0, 5)
		p.Complete(id)
	},
	"restate": func(p *probe, b metastore.Blob) {
		v := versionOf(b)
		dbtest.Value(p.Store.CopyBlob(p.Ctx, metastore.Copy{FromVersion: &v, Restated: true, KeepDate: true, To: metastore.Blob{Account: "a", Name: b.Name, Expires: p.Clock.Now().Add(time.Hour)}}))
	},
	"delete":            func(p *probe, b metastore.Blob) { p.refuses(b, nil) },
	"delete with a key": func(p *probe, b metastore.Blob) { p.refuses(b, nil) },
	"most": func(p *probe, b metastore.Blob) {
		p.setLocks(func(k *metastore.Keeping) { k.Most = 1 })
		for range 5 {
			p.Put("a", b.Name)
		}
	},
	"for": func(p *probe, b metastore.Blob) {
		p.setLocks(func(k *metastore.Keeping) { k.For = time.Second })
		p.Put("a", b.Name)
		p.Clock.Advance(2 * time.Hour)
		p.Purge()
	},
	"setting": func(p *probe, b metastore.Blob) {
		for range 3 {
			p.Put("a", b.Name)
		}
		p.setLocks(func(k *metastore.Keeping) { k.For, k.Most = time.Second, 1 })
		p.Clock.Advance(2 * time.Minute)
		p.applied()
		p.Purge()
	},
	"promote": func(p *probe, b metastore.Blob) {
		mark := dbtest.Value(p.Store.RemoveBlob(p.Ctx, metastore.Removal{BlobName: blobName(b)})).Mark
		dbtest.Value(p.delete(mark, nil))
		p.refuses(b, nil)
	},
	"off": func(p *probe, _ metastore.Blob) {
		for _, change := range []func(*metastore.Keeping){
			func(k *metastore.Keeping) { k.State = metastore.KeepOff }, func(k *metastore.Keeping) { k.State = metastore.KeepNever },
			func(k *metastore.Keeping) { k.Locks = false }, func(k *metastore.Keeping) { *k = metastore.Keeping{} },
		} {
			p.Is(dbtest.Error(p.trySetLocks(change)), metastore.ErrLocksStay, "an account without its locks")
		}
	},
}

// refuses requires that a locked version is not deleted.
func (p *probe) refuses(b metastore.Blob, bypass metastore.Bypass) {
	_, err := p.delete(b, bypass)
	var locked *metastore.LockedError
	p.Must(errors.As(err, &locked) && locked.Lock == b.Lock && errors.Is(err, metastore.ErrLocked), "the deletion of a version with the lock %+v: %v", b.Lock, err)
}

// lockWays tries each way with each kind of lock. The version stays with its bytes, and can be
// deleted when its lock has ended.
func lockWays(p *probe) {
	p.lock()
	for way, try := range ways {
		for _, kind := range []metastore.Lock{{Mode: metastore.LockGovernance}, {Mode: metastore.LockCompliance}, {Hold: true}, {Mode: metastore.LockGovernance, Hold: true}} {
			lock := kind
			if kind.Mode != metastore.LockNone {
				lock.Until = p.retention(kind.Mode, lockedFor).Until
			}
			p.setLocks(func(k *metastore.Keeping) { k.For, k.Most = 0, 0 })
			name := fmt.Sprint(way, " ", p.Next())
			e := p.Extent(0, 0, 7)
			b := p.put(metastore.Blob{Account: "a", Name: name, Lock: lock, Expires: p.Clock.Now().Add(time.Hour)}, e)
			p.Must(b.Lock == lock, "the lock %+v is stored as %+v", lock, b.Lock)
			try(p, b)
			p.Purge()
			p.Clock.Advance(26 * time.Hour) // the blob has expired
			p.Purge()
			p.stays(b, stored(e), "%s with the lock %+v", way, lock)
			p.refuses(b, nil)
			if lock.Hold || lock.Mode == metastore.LockCompliance {
				p.refuses(b, bypassing)
			}
			if lock.Hold {
				no := false
				dbtest.Value(p.Store.SetLock(p.Ctx, metastore.LockChange{VersionName: versionOf(b), Hold: &no}))
			}
			p.Clock.Advance(lockedFor)
			_, err := p.delete(b, nil)
			p.OK(err, "the deletion of a version after its lock")
			p.Is(p.opened(b), database.ErrNotFound, "a version that was deleted")
		}
	}
	p.Audited()
}

// stays requires that a version is read, listed and not garbage.
func (p *probe) stays(b metastore.Blob, extents []metastore.Extent, format string, a ...any) {
	got, first, err := p.Store.OpenVersion(p.Ctx, versionOf(b))
	p.OK(err, format, a...)
	p.Must(got.Lock == b.Lock && got.Content == b.Content, "%s: the version is %+v, was %+v", fmt.Sprintf(format, a...), got, b)
	p.Equal(first, extents, format, a...)
	listed := false
	for _, v := range p.versions(b.Name) {
		listed = listed || v.Modified.Equal(b.Modified) && v.Lock == b.Lock
	}
	p.Must(listed, "%s: the version is not listed", fmt.Sprintf(format, a...))
	p.Must(!p.isGarbage(b.Content), "%s: the content is garbage", fmt.Sprintf(format, a...))
}

// lockChanges changes each lock to each other, with and without a bypass, current and kept.
func lockChanges(p *probe) {
	p.lock()
	sooner, later := lockedFor-time.Hour, lockedFor+time.Hour
	const refused, bypassed, made = 0, 1, 2
	g, c := metastore.LockGovernance, metastore.LockCompliance
	for _, step := range []struct {
		from, to metastore.LockMode
		in       time.Duration
		want     int
	}{
		{"", g, sooner, made}, {"", c, sooner, made}, {"", "", 0, made},
		{g, g, later, made}, {g, g, lockedFor, made}, {g, c, lockedFor, made}, {g, c, later, made},
		{g, g, sooner, bypassed}, {g, "", 0, bypassed}, {g, c, sooner, bypassed},
		{c, c, lockedFor, made}, {c, c, later, made}, {c, c, sooner, refused}, {c, g, later, refused}, {c, "", 0, refused},
	} {
		for _, kept := range []bool{false, true} {
			for _, bypass := range []metastore.Bypass{nil, bypassing} {
				for _, hold := range []bool{false, true} {
					b := metastore.Blob{Account: "a", Name: "n"}
					if b.Lock.Hold = hold; step.from != "" {
						b.Lock = p.retention(step.from, lockedFor)
						b.Lock.Hold = hold
					}
					b = p.put(b)
					to := metastore.Lock{}
					if step.to != "" {
						to = p.retention(step.to, step.in)
					}
					change := metastore.LockChange{VersionName: versionOf(b), Retention: &to, Bypass: bypass}
					if kept {
						p.Put("a", "n")
					} else if bypass != nil {
						change.Version = metastore.Version{} // the current one
					}
					got, err := p.Store.SetLock(p.Ctx, change)
					call := fmt.Sprintf("%+v with bypass %t and hold %t", step, bypass != nil, hold)
					if step.want == made || step.want == bypassed && bypass != nil {
						p.OK(err, "%s", call)
						to.Hold = hold
						p.Must(got.Lock == to, "%s: the lock is %+v", call, got.Lock)
					} else {
						p.Is(err, metastore.ErrLocked, "%s", call)
						to = b.Lock
					}
					got, _, err = p.Store.OpenVersion(p.Ctx, versionOf(b))
					p.OK(err, "%s", call)
					p.Must(got.Lock == to, "%s: the stored lock is %+v", call, got.Lock)
				}
			}
		}
	}
	yes := true
	mark := dbtest.Value(p.Store.RemoveBlob(p.Ctx, metastore.Removal{BlobName: named("n")})).Mark
	for _, v := range []metastore.VersionName{versionOf(mark), {BlobName: named("n")}, {BlobName: named("none")}, {BlobName: named("n"), Version: metastore.Version{9}}, {BlobName: named("n"), Null: true}} {
		p.Is(dbtest.Error(p.Store.SetLock(p.Ctx, metastore.LockChange{VersionName: v, Hold: &yes})), database.ErrNotFound, "a lock of %+v", v)
	}
	b, _ := p.Put("a", "n")
	p.Is(dbtest.Error(p.Store.SetLock(p.Ctx, metastore.LockChange{VersionName: versionOf(b), Hold: &yes, Precondition: func(*metastore.Blob) error { return errRefused }})), errRefused, "a lock on condition")
	got, _, err := p.Store.OpenVersion(p.Ctx, versionOf(b))
	p.Must(err == nil && !got.Lock.Hold, "a refused lock: %+v, %v", got, err)
}

// lockBypass records the act of each bypass with it, and none without.
func lockBypass(p *probe) {
	p.lock()
	called := 0
	act := func(subject string, failed error) metastore.Bypass {
		return func(b *metastore.Blob, after metastore.Lock) (*actions.Act, error) {
			called++
			p.Must(b.Lock.Mode == metastore.LockGovernance, "the bypassed lock is %+v", b.Lock)
			return &actions.Act{Action: actions.Action{Name: "x", Subject: subject, After: []byte(after.Mode)}, Keys: dbtest.Value(p.Store.KeysVersion(p.Ctx))}, failed
		}
	}
	subjects := func() (list string) {
		for _, a := range dbtest.Value(p.Store.ListActions(p.Ctx, "", 100)) {
			list = a.Subject + " " + list
		}
		return list
	}
	b := p.put(metastore.Blob{Account: "a", Name: "n", Lock: p.retention(metastore.LockGovernance, lockedFor)})
	shorter := p.retention(metastore.LockGovernance, time.Hour)
	_, err := p.delete(b, act("refused", errRefused))
	p.Is(err, errRefused, "a bypass that is refused")
	p.stays(b, nil, "a refused bypass")
	dbtest.Value(p.Store.SetLock(p.Ctx, metastore.LockChange{VersionName: versionOf(b), Retention: &shorter, Bypass: act("shorter", nil)}))
	dbtest.Value(p.Store.SetLock(p.Ctx, metastore.LockChange{VersionName: versionOf(b), Retention: &b.Lock, Bypass: act("longer", nil)}))
	p.Clock.Advance(time.Second)
	p.Must(dbtest.Value(p.delete(b, act("deleted", nil))), "a bypassed version is not there")
	for _, lock := range []metastore.Lock{{}, {Hold: true}, p.retention(metastore.LockCompliance, lockedFor)} {
		p.Clock.Advance(time.Second)
		b = p.put(metastore.Blob{Account: "a", Name: "n", Lock: lock})
		_, err := p.delete(b, act("not needed", nil))
		p.Must((err == nil) == (lock == metastore.Lock{}), "a bypass of the lock %+v: %v", lock, err)
	}
	p.Must(subjects() == "shorter deleted " && called >= 3, "recorded: %s, called %d times", subjects(), called)
}

// locksOfCommits: each kind of commit stores the lock that its writer states, or the account's.
func locksOfCommits(p *probe) {
	commits := map[string]func(name string, lock metastore.Lock) (metastore.Lock, error){
		"put": func(name string, lock metastore.Lock) (metastore.Lock, error) {
			b, err := p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: name, Content: p.Content(), Lock: lock}, nil, nil)
			return b.Lock, err
		},
		"copy": func(name string, lock metastore.Lock) (metastore.Lock, error) {
			b, err := p.Store.CopyBlob(p.Ctx, metastore.Copy{From: named("source"), To: metastore.Blob{Account: "a", Name: name, Lock: lock}})
			return b.Lock, err
		},
		"move": func(name string, lock metastore.Lock) (metastore.Lock, error) {
			p.Put("a", "moved")
			b, err := p.Store.MoveBlob(p.Ctx, metastore.Move{From: named("moved"), To: named(name), Lock: lock})
			return b.Lock, err
		},
		"upload": func(name string, lock metastore.Lock) (metastore.Lock, error) {
			id := fmt.Sprint("upload", p.Next())
			u, err := p.Store.BeginUpload(p.Ctx, metastore.Upload{ID: id, Account: "a", Name: name, Content: p.Content(), PartSize: 10, Lock: lock})
			if err != nil {
				return metastore.Lock{}, err
			}
			p.Must(u.Lock == lock && p.Upload(id).Lock == lock, "the upload's lock is %+v, not %+v", u.Lock, lock)
			p.part(id, 0, 5)
			u, err = p.Store.CompleteUpload(p.Ctx, id, p.Upload(id).Revision, 5, 5, nil)
			return u.Lock, err
		},
	}
	p.Put("a", "source")
	for commit, do := range commits {
		p.Is(dbtest.Error(do("n", p.retention(metastore.LockGovernance, time.Hour))), metastore.ErrNoLocks, "%s in an account that keeps nothing", commit)
	}
	p.keep()
	for commit, do := range commits {
		p.Is(dbtest.Error(do("n", metastore.Lock{Hold: true})), metastore.ErrNoLocks, "%s in an account without locks", commit)
	}
	p.lock()
	stated := p.retention(metastore.LockCompliance, 3*time.Hour)
	for _, account := range []metastore.LockMode{metastore.LockNone, metastore.LockGovernance} {
		p.setLocks(func(k *metastore.Keeping) {
			if k.LockMode = account; account != metastore.LockNone {
				k.LockFor, k.LockMost = time.Hour, 4*time.Hour
			}
		})
		for commit, do := range commits {
			for _, lock := range []metastore.Lock{{}, {Hold: true}, stated, {Mode: stated.Mode, Until: stated.Until, Hold: true}} {
				want := lock
				if lock.Mode == metastore.LockNone && account != metastore.LockNone {
					want.Mode, want.Until = account, p.Clock.Now().Add(time.Hour+time.Second-1).Truncate(time.Second)
				}
				got, err := do("n", lock)
				p.OK(err, "%s with the lock %+v", commit, lock)
				p.Must(got == want, "%s with the lock %+v in an account with %q: %+v, want %+v", commit, lock, account, got, want)
			}
			for _, lock := range []metastore.Lock{p.retention(metastore.LockGovernance, 0), p.retention("other", time.Hour), p.retention(metastore.LockGovernance, 4*time.Hour+2*time.Second), {Mode: metastore.LockGovernance}} {
				if account != metastore.LockNone {
					p.Is(dbtest.Error(do("n", lock)), metastore.ErrLock, "%s with the lock %+v", commit, lock)
				}
			}
		}
	}
	p.setLocks(func(k *metastore.Keeping) { k.LockMost = 0 })
	p.Is(dbtest.Error(commits["put"]("n", p.retention(metastore.LockGovernance, metastore.MaxLock+2*time.Second))), metastore.ErrLock, "a lock for a decade and more")
	dbtest.Value(commits["put"]("n", p.retention(metastore.LockGovernance, metastore.MaxLock)))
}

// lockSetting stores the setting of locks, for ever.
func lockSetting(p *probe) {
	p.keep()
	p.Is(dbtest.Error(p.trySetLocks(func(k *metastore.Keeping) { k.State, k.Locks = metastore.KeepOff, true })), metastore.ErrLocksStay, "locks without versions")
	set := p.setLocks(func(k *metastore.Keeping) {
		k.Locks, k.LockMode, k.LockFor, k.LockMost, k.For, k.Most = true, metastore.LockGovernance, 24*time.Hour, 48*time.Hour, time.Hour, 7
	})
	p.Must(set.Locks && set.LockMode == metastore.LockGovernance && set.LockFor == 24*time.Hour && set.LockMost == 48*time.Hour && set.State == metastore.KeepOn && set.For == time.Hour && set.Most == 7, "the setting is %+v", set)
	p.Reopen()
	p.Equal(dbtest.Value(p.Store.Keeping(p.Ctx, "a")), set, "the setting")
	p.Equal(dbtest.Value(p.Store.ListKeeping(p.Ctx, "", 10)), []metastore.AccountKeeping{{Account: "a", Keeping: set}}, "the settings")
	p.Clock.Advance(2 * time.Minute)
	p.applied()
	set = p.setLocks(func(k *metastore.Keeping) { k.LockMode, k.LockFor = metastore.LockNone, 0 })
	p.Must(set.Locks && set.LockMode == metastore.LockNone && set.LockMost == 48*time.Hour && !set.Pending, "the setting without a default is %+v", set)
}

// lockSurplus: a locked version beyond Keeping.Most goes when its lock has ended, and one that is
// due when it was locked is kept until then. Meanwhile Until shows it.
func lockSurplus(p *probe) {
	p.lock()
	p.setLocks(func(k *metastore.Keeping) { k.Most, k.For = 1, time.Hour })
	b := p.put(metastore.Blob{Account: "a", Name: "n", Lock: p.retention(metastore.LockGovernance, lockedFor)})
	held := p.put(metastore.Blob{Account: "a", Name: "n", Lock: metastore.Lock{Hold: true}})
	for range 3 {
		p.Put("a", "n")
	}
	p.Must(len(p.versions("n")) == 4, "%d versions", len(p.versions("n")))
	until := func(b metastore.Blob) time.Time {
		got, _, err := p.Store.OpenVersion(p.Ctx, versionOf(b))
		p.OK(err, "a locked version")
		return got.Until
	}
	p.Must(until(b).Equal(b.Lock.Until) && until(held).IsZero(), "kept until %v and %v, want %v and without limit", until(b), until(held), b.Lock.Until)
	p.Clock.Advance(lockedFor - time.Minute)
	p.Purge()
	p.stays(b, nil, "a minute before the end of its lock")
	p.Clock.Advance(time.Minute)
	p.Purge()
	p.Is(p.opened(b), database.ErrNotFound, "a surplus version after its lock")
	no := false
	dbtest.Value(p.Store.SetLock(p.Ctx, metastore.LockChange{VersionName: versionOf(held), Hold: &no}))
	p.Purge()
	p.Must(len(p.versions("n")) == 1, "%d versions without locks", len(p.versions("n")))
	p.Audited()
}

// lockRaces locks versions while they are deleted: only one call succeeds.
func lockRaces(p *probe) {
	p.lock()
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 40 {
		b := p.put(metastore.Blob{Account: "a", Name: fmt.Sprint("n", round%3)})
		if round%2 == 0 {
			p.Put("a", b.Name)
		}
		lock := p.retention(metastore.LockCompliance, lockedFor)
		errs := dbtest.Race(2, func(i int) error {
			if i == 0 {
				return dbtest.Error(handles[round/2%2].DeleteVersion(p.Ctx, metastore.Deletion{VersionName: versionOf(b)}))
			}
			return dbtest.Error(handles[(round/2+1)%2].SetLock(p.Ctx, metastore.LockChange{VersionName: versionOf(b), Retention: &lock}))
		})
		_, _, err := p.Store.OpenVersion(p.Ctx, versionOf(b))
		if errs[1] == nil {
			p.Is(errs[0], metastore.ErrLocked, "the deletion of a locked version")
			p.OK(err, "a locked version")
		} else {
			p.Is(errs[1], database.ErrNotFound, "the lock of a deleted version")
			p.OK(errs[0], "the deletion")
			p.Is(err, database.ErrNotFound, "the deleted version")
		}
	}
	p.Audited()
}
