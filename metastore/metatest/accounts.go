package metatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

var accountChecks = []dbtest.Check{
	check("accounts/changes", accountChanges),
	check("accounts/pages", accountPages),
	check("accounts/purge", accountPurge),
	check("accounts/folded", accountsFolded),
	check("accounts/race", accountRace),
}

// allAccounts returns a store's accounts, read in pages of limit.
func allAccounts(ctx context.Context, s whole.Database, limit int) ([]metastore.Account, error) {
	var all []metastore.Account
	for after := ""; ; {
		page, err := s.ListAccounts(ctx, after, limit)
		if err != nil {
			return nil, err
		}
		if len(page) > limit || (len(page) > 0 && page[0].Account <= after) {
			return nil, fmt.Errorf("%d accounts of a page of %d after %q: %+v", len(page), limit, after, page)
		}
		all = append(all, page...)
		if len(page) < limit {
			return all, nil
		}
		after = page[len(page)-1].Account
	}
}

// accounts ends the check unless exactly these accounts are listed, in any pages, and the total is
// their sum.
func (p *probe) accounts(want []metastore.Account, format string, a ...any) {
	for _, limit := range []int{1, 2, 1000} {
		p.Equal(dbtest.Value(allAccounts(p.Ctx, p.Store, limit)), want, "accounts by %d after %s", limit, fmt.Sprintf(format, a...))
	}
	var total metastore.Account
	for _, account := range want {
		total.Blobs += account.Blobs
		total.Bytes += account.Bytes
	}
	blobs, bytes, err := p.Store.TotalStored(p.Ctx)
	p.OK(err, "total stored")
	p.Equal(metastore.Account{Blobs: blobs, Bytes: bytes}, total, "total after %s", fmt.Sprintf(format, a...))
}

// putIn commits a blob of one extent, or an empty one, to an account.
func (p *probe) putIn(account, name string, size int64, expires time.Time) {
	var extents []metastore.Extent
	if size > 0 {
		extents = p.extents(0, size)
	}
	_, err := p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: account, Name: name, Content: p.Content(), Size: size, Owner: "owner", Expires: expires}, extents, nil)
	p.OK(err, "commit of %q in %q", name, account)
}

func (p *probe) deleteIn(account, name string) {
	_, _, err := dbtest.Remove(p.Ctx, p.Store, account, name, nil)
	p.OK(err, "delete of %q in %q", name, account)
}

// accountChanges checks that every method that changes a blob changes the counts of its account,
// and that a call without effect changes none.
func accountChanges(p *probe) {
	p.accounts(nil, "nothing")
	p.putIn("a", "one", 100, time.Time{})
	p.accounts([]metastore.Account{{Account: "a", Blobs: 1, Bytes: 100}}, "a commit")
	p.putIn("a", "one", 30, time.Time{})
	p.accounts([]metastore.Account{{Account: "a", Blobs: 1, Bytes: 30}}, "an overwrite with fewer bytes")
	p.putIn("a", "one", 30, time.Time{})
	p.putIn("a", "two", 0, time.Time{})
	p.putIn("b", "one", 7, time.Time{})
	two := []metastore.Account{{Account: "a", Blobs: 2, Bytes: 30}, {Account: "b", Blobs: 1, Bytes: 7}}
	p.accounts(two, "commits of an empty blob and in another account")

	p.beginFor("x", "upload", "one") // in account a
	p.part("upload", 0, 50)
	p.accounts(two, "a part")
	_, err := p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: "three", Content: p.Content()}, nil,
		func(*metastore.Blob) error { return errRefused })
	p.Is(err, errRefused, "commit")
	_, _, err = dbtest.Remove(p.Ctx, p.Store, "a", "one", func(*metastore.Blob) error { return errRefused })
	p.Is(err, errRefused, "delete")
	p.deleteIn("a", "none")
	p.deleteIn("c", "one")
	p.accounts(two, "refusals and deletes of nothing")
	p.Complete("upload")
	p.Complete("upload")
	p.accounts([]metastore.Account{{Account: "a", Blobs: 2, Bytes: 50}, {Account: "b", Blobs: 1, Bytes: 7}}, "a complete that replaces a blob")
	p.beginFor("", "other", "four")
	p.part("other", 0, 5)
	p.Complete("other")
	p.accounts([]metastore.Account{{Account: "a", Blobs: 3, Bytes: 55}, {Account: "b", Blobs: 1, Bytes: 7}}, "a complete of a new blob")

	p.Reopen()
	p.deleteIn("b", "one")
	p.accounts([]metastore.Account{{Account: "a", Blobs: 3, Bytes: 55}}, "the deletion of the last blob")
	p.deleteIn("b", "one")
	for _, name := range []string{"one", "two", "four"} {
		p.deleteIn("a", name)
	}
	p.accounts(nil, "the deletion of all blobs")
	p.Purge()
	p.accounts(nil, "a purge")
	p.putIn("b", "one", 8, time.Time{})
	p.accounts([]metastore.Account{{Account: "b", Blobs: 1, Bytes: 8}}, "a commit after that")
	p.Audited()
}

// accountPages lists accounts with any bytes, before, between and after purges.
func accountPages(p *probe) {
	var want []metastore.Account
	for i, account := range []string{"\x00", "0x1", "0x10", "0x2", "A", "a", "a\x00", "a\xff", "aa", "é", "\xff", "\xff\xff", strings.Repeat("z", 255)} {
		for k := range 1 + i%3 {
			p.putIn(account, fmt.Sprint("name", k), int64(1+i), time.Time{})
		}
		want = append(want, metastore.Account{Account: account, Blobs: int64(1 + i%3), Bytes: int64((1 + i) * (1 + i%3))})
		if i%4 == 0 {
			p.Purge()
		}
		if i%2 == 0 { // accounts without blobs fill no page
			p.putIn(account+" empty", "name", 5, time.Time{})
			p.deleteIn(account+" empty", "name")
		}
	}
	slices.SortFunc(want, func(a, b metastore.Account) int { return cmp.Compare(a.Account, b.Account) })
	p.accounts(want, "all commits")
	for _, after := range []string{"\x00", "0", "0x1", "a", "a\x00\x00", "b", "\xff", "\xff\xff"} {
		got := dbtest.Value(p.Store.ListAccounts(p.Ctx, after, 3))
		rest := slices.DeleteFunc(slices.Clone(want), func(a metastore.Account) bool { return a.Account <= after })
		p.Equal(got, rest[:min(3, len(rest))], "accounts after %q", after)
	}
	p.Purge()
	p.accounts(want, "a purge")
	p.Reopen()
	p.accounts(want, "closing")
}

// accountPurge checks that an expired blob counts until it is purged or replaced.
func accountPurge(p *probe) {
	soon := p.Clock.Now().Add(time.Minute)
	for i := range 5 {
		p.putIn("a", fmt.Sprint(i), 10, soon)
		p.putIn("b", fmt.Sprint(i), 10, soon)
	}
	p.putIn("b", "lasting", 1, time.Time{})
	before := []metastore.Account{{Account: "a", Blobs: 5, Bytes: 50}, {Account: "b", Blobs: 6, Bytes: 51}}
	p.Clock.Advance(time.Minute)
	p.Purge()
	p.accounts(before, "the expiry")
	p.putIn("a", "0", 3, time.Time{})
	p.deleteIn("a", "1")
	p.accounts([]metastore.Account{{Account: "a", Blobs: 4, Bytes: 33}, before[1]}, "replacing and deleting expired blobs")
	p.Clock.Advance(metastore.ExpiredBlobGrace)
	p.accounts([]metastore.Account{{Account: "a", Blobs: 4, Bytes: 33}, before[1]}, "the grace")
	p.Purge()
	p.accounts([]metastore.Account{{Account: "a", Blobs: 1, Bytes: 3}, {Account: "b", Blobs: 1, Bytes: 1}}, "a purge")
	p.Audited()
}

// accountsFolded writes many blobs and reads the counts between purges with small limits.
func accountsFolded(p *probe) {
	want := map[string]metastore.Account{}
	put := func(account, name string, size int64) {
		p.putIn(account, name, size, time.Time{})
		a := want[account]
		want[account] = metastore.Account{Account: account, Blobs: a.Blobs + 1, Bytes: a.Bytes + size}
	}
	listed := func() []metastore.Account {
		var list []metastore.Account
		for _, account := range slices.Sorted(maps.Keys(want)) {
			if want[account].Blobs > 0 {
				list = append(list, want[account])
			}
		}
		return list
	}
	for round := range 3 {
		for i := range 30 {
			account, name := fmt.Sprint("account", i%4), fmt.Sprint(round, "-", i)
			put(account, name, int64(i%7))
			if i%3 == 0 {
				p.deleteIn(account, name)
				want[account] = metastore.Account{Account: account, Blobs: want[account].Blobs - 1, Bytes: want[account].Bytes - int64(i%7)}
			}
		}
		for calls := 0; ; calls++ {
			p.Must(calls < 200, "purges do not end")
			n := dbtest.Value(p.Store.Purge(p.Ctx, []int{1, 7, 1000}[round]))
			p.accounts(listed(), "call %d of the purge in round %d", calls, round)
			if n == 0 {
				break
			}
		}
		p.Audited()
	}
}

// accountRace commits, completes, deletes and purges concurrently over two handles, while the
// accounts are listed. In the end the counts equal the blobs.
func accountRace(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	const callers, steps, names = 12, 25, 4
	accounts := []string{"a", "b", "c"}
	extents := make([][]metastore.Extent, callers)
	contents := make([][]metastore.ContentID, callers)
	for i := range callers { // a probe does not make them concurrently
		for k := range steps {
			extents[i] = append(extents[i], p.Extent(0, 0, int64(1+(i*steps+k)%89)))
			contents[i] = append(contents[i], p.Content())
		}
	}
	step := func(i, k int) error {
		s, account, name := handles[(i+k)%2], accounts[(i+2*k)%3], fmt.Sprint("name", (i*5+k*3)%names)
		switch (i + k*5) % 8 {
		case 0:
			_, _, err := dbtest.Remove(p.Ctx, s, account, name, nil)
			return err
		case 1:
			_, err := s.Purge(p.Ctx, 20)
			return err
		case 2:
			listed, err := allAccounts(p.Ctx, s, 2)
			for _, a := range listed {
				if a.Blobs < 1 || a.Blobs > names || a.Bytes < a.Blobs {
					err = errors.Join(err, fmt.Errorf("listed %+v during the race", a))
				}
			}
			return err
		case 3:
			id := fmt.Sprint("upload", i, "-", k)
			if _, err := s.BeginUpload(p.Ctx, metastore.Upload{ID: id, Account: account, Name: name, Content: contents[i][k], PartSize: 100}); err != nil {
				return err
			}
			if err := s.PutPart(p.Ctx, id, metastore.Part{Size: extents[i][k].Size}, extents[i][k:k+1]); err != nil {
				return err
			}
			return completeUnchanged(p, s, id)
		default:
			_, err := s.CommitBlob(p.Ctx, metastore.Blob{Account: account, Name: name, Content: contents[i][k], Size: extents[i][k].Size}, extents[i][k:k+1], nil)
			return err
		}
	}
	errs := dbtest.Race(callers, func(i int) error {
		for k := range steps {
			if err := step(i, k); err != nil {
				return fmt.Errorf("caller %d, step %d: %w", i, k, err)
			}
		}
		return nil
	})
	p.OK(errors.Join(errs...), "racing writers")
	var want []metastore.Account
	for _, account := range accounts {
		page := dbtest.Value(p.Store.ListBlobs(p.Ctx, metastore.ListQuery{Account: account, Limit: 1000}))
		one := metastore.Account{Account: account, Blobs: int64(len(page.Blobs))}
		for _, b := range page.Blobs {
			one.Bytes += b.Size
		}
		if one.Blobs > 0 {
			want = append(want, one)
		}
	}
	p.Must(len(want) > 0, "the race left no blobs")
	p.accounts(want, "the race")
	p.Purge()
	p.Reopen()
	p.accounts(want, "a purge")
	p.Audited()
}
