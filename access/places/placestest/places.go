package placestest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"sluice/access/actions"
	"sluice/access/places"
	"sluice/database/dbtest"
	"sluice/database/whole"
)

// Change changes one place, and returns its settings as stored. change is called with them and with
// the whole account's settings, before.
func Change(ctx context.Context, store places.Store, at places.Place, change func(s *places.Settings, account places.Settings) (*actions.Act, error)) (places.Settings, error) {
	of, err := store.ChangePlaces(ctx, at.Account, []places.Place{at}, func(of map[places.Place]places.Settings) (*actions.Act, error) {
		s := of[at]
		act, err := change(&s, of[places.Place{Account: at.Account}])
		of[at] = s
		return act, err
	})
	return of[at], err
}

// set changes a place in the account a, and returns its settings as stored.
func (p *probe) set(name string, change func(s *places.Settings)) places.Settings {
	return p.setAt(p.Store, places.Place{Account: "a", Name: name}, change)
}

func (p *probe) setAt(store places.Store, at places.Place, change func(s *places.Settings)) places.Settings {
	got, err := Change(p.Ctx, store, at, func(s *places.Settings, _ places.Settings) (*actions.Act, error) {
		change(s)
		return nil, nil
	})
	p.OK(err, "change of %+v", at)
	return got
}

// all returns all places with settings. Their marks are not 0, and are 0 in the result.
func (p *probe) all(account string) []places.Row {
	list := dbtest.Value(p.Store.ListPlaces(p.Ctx, account, places.Place{}, 1000))
	for i := range list {
		p.Must(list[i].Mark != 0, "%+v has the mark 0", list[i])
		list[i].Mark = 0
	}
	return list
}

func reads(value string) func(*places.Settings) {
	return func(s *places.Settings) { s.Reads = value }
}

// placeChange sets each setting of places with odd names, and removes them.
func placeChange(p *probe) {
	var want []places.Row
	for _, at := range []places.Place{
		{Account: "a"}, {Account: "a", Exact: true}, {Account: "a", Name: "\x00\xff"}, {Account: "a", Name: "é/%2f" + strings.Repeat("x", 1000)},
		{Account: "a", Name: "é/%2f" + strings.Repeat("x", 1000), Exact: true}, {Account: "\xff", Name: "b"},
	} {
		was := p.setAt(p.Store, at, func(s *places.Settings) {
			p.Must(!s.Set(), "a new place has %+v", s)
			s.Reads, s.Lists = "public", "key"
		})
		p.Equal(was, places.Settings{Reads: "public", Lists: "key"}, "settings as set")
		is := p.setAt(p.Store, at, func(s *places.Settings) {
			p.Equal(*s, was, "settings as stored")
			s.Reads, s.Lists, s.MayOpen, s.Guard = "", "\x00\xff", true, 5
		})
		want = append(want, places.Row{Place: at, Settings: is})
	}
	p.Reopen()
	p.Equal(p.all(""), want, "places")
	refused := errors.New("refused")
	_, err := Change(p.Ctx, p.Store, want[0].Place, func(s *places.Settings, _ places.Settings) (*actions.Act, error) {
		s.Reads = "lost"
		return nil, refused
	})
	p.Is(err, refused, "a change that is refused")
	p.Equal(p.all(""), want, "places after a refused change")
	for _, row := range want {
		p.setAt(p.Store, row.Place, func(s *places.Settings) { *s = places.Settings{} })
	}
	p.set("never", func(*places.Settings) {})
	p.Must(len(p.all("")) == 0, "places remain: %+v", p.all(""))
}

// placeBlock: a block's time is the first one's, until it ends.
func placeBlock(p *probe) {
	block := func(reason string) func(*places.Settings) {
		return func(s *places.Settings) {
			s.Blocked = &places.Block{Reason: reason, By: "key\x00\xff", Since: p.Clock.Now().Add(-time.Hour)}
		}
	}
	first := p.Clock.Now()
	p.Equal(p.set("n", block("one")).Blocked, &places.Block{Reason: "one", By: "key\x00\xff", Since: first}, "block")
	p.Clock.Advance(time.Minute)
	p.Equal(p.set("n", block("two")).Blocked, &places.Block{Reason: "two", By: "key\x00\xff", Since: first}, "another reason")
	refused := errors.New("refused")
	_, err := Change(p.Ctx, p.Store, places.Place{Account: "a", Name: "n"}, func(s *places.Settings, _ places.Settings) (*actions.Act, error) {
		s.Blocked.Reason = "" // of its own
		return nil, refused
	})
	p.Is(err, refused, "a change that is refused")
	p.Reopen()
	p.Equal(p.all("a")[0].Blocked, &places.Block{Reason: "two", By: "key\x00\xff", Since: first}, "block as stored")
	p.Must(p.set("n", func(s *places.Settings) { s.Blocked = nil }).Blocked == nil, "it is still blocked")
	p.Equal(p.set("n", block("")).Blocked, &places.Block{By: "key\x00\xff", Since: p.Clock.Now()}, "a later block without a reason")
}

// placeList lists all places, and an account's, in pages of every size.
func placeList(p *probe) {
	var want []places.Place
	for _, account := range []string{"a", "a\x00", "b"} {
		for _, name := range []string{"", "\x00", "A", "a", "a\x00", "a/", "a/b", "ä", "\xff"} {
			want = append(want, places.Place{Account: account, Name: name}, places.Place{Account: account, Name: name, Exact: true})
		}
	}
	for _, i := range rand.Perm(len(want)) {
		p.setAt(p.Store, want[i], reads("public"))
	}
	p.setAt(p.Store, places.Place{Account: "b", Name: "gone"}, reads("key"))
	p.setAt(p.Store, places.Place{Account: "b", Name: "gone"}, reads(""))
	for _, account := range []string{"", "a", "b", "c"} {
		of := slices.DeleteFunc(slices.Clone(want), func(at places.Place) bool { return account != "" && at.Account != account })
		for limit := 1; limit <= len(of)+1; limit += 1 + limit/3 {
			var got []places.Place
			for after := (places.Place{}); ; after = got[len(got)-1] {
				page := dbtest.Value(p.Store.ListPlaces(p.Ctx, account, after, limit))
				p.Must(len(page) <= limit, "%d places on a page of %d", len(page), limit)
				for _, row := range page {
					got = append(got, row.Place)
				}
				if len(page) < limit {
					break
				}
			}
			p.Equal(got, of, "places of %q in pages of %d", account, limit)
		}
	}
}

// follower applies changes like a node.
type follower struct {
	version places.Version
	rows    map[places.Place]places.Row
	wholes  int
}

// follow applies the changes since the last call. Then the follower has the rows that are listed,
// and the version has the sum over their marks.
func (p *probe) follow(f *follower) {
	c := dbtest.Value(p.Store.PlaceChanges(p.Ctx, f.version))
	if c.Whole || f.rows == nil {
		f.rows = map[places.Place]places.Row{}
		f.wholes++
	}
	f.version = c.Version
	for _, row := range c.Rows {
		p.Must(row.Set() == (row.Mark != 0), "%+v has the mark %d", row, row.Mark)
		p.Must(row.Set() || !c.Whole, "all places have %+v", row)
		f.rows[row.Place] = row
		if !row.Set() {
			delete(f.rows, row.Place)
		}
	}
	listed := dbtest.Value(p.Store.ListPlaces(p.Ctx, "", places.Place{}, 10_000))
	sum := int64(0)
	for _, row := range listed {
		sum ^= row.Mark
		p.Equal(f.rows[row.Place], row, "followed place")
	}
	p.Must(len(f.rows) == len(listed), "%d places were followed, and there are %d", len(f.rows), len(listed))
	p.Must(sum == f.version.Sum, "the sum of marks is %d, and the version's %d", sum, f.version.Sum)
	again := dbtest.Value(p.Store.PlaceChanges(p.Ctx, f.version))
	p.Must(!again.Whole && len(again.Rows) == 0 && again.Version == f.version, "a second call found %+v", again)
}

// placeChanges follows changes, also past the deletion of places without settings, and from
// versions of another history.
func placeChanges(p *probe) {
	steady, late := &follower{}, &follower{}
	p.follow(steady)
	for i := range 3 {
		p.set(fmt.Sprint(i), reads("public"))
		p.follow(steady)
	}
	p.follow(late)
	wholes := steady.wholes
	p.set("1", reads(""))
	p.follow(steady)
	p.Must(steady.wholes == wholes, "a change was sent with all places")
	p.Reopen()
	p.follow(steady)
	p.Must(steady.wholes == wholes, "a reopened store sent all places")
	for _, other := range []places.Version{
		{Number: steady.version.Number, Sum: steady.version.Sum + 1}, {Number: steady.version.Number + 7, Sum: steady.version.Sum},
	} {
		c := dbtest.Value(p.Store.PlaceChanges(p.Ctx, other))
		p.Must(c.Whole && len(c.Rows) == 2 && c.Version == steady.version, "since %+v, which never was: %+v", other, c)
	}
	for i := range 1100 { // more than remain without settings
		name := fmt.Sprint("short", i)
		p.set(name, reads("key"))
		p.set(name, reads(""))
		if i == 500 {
			p.follow(steady)
		}
	}
	p.set("2", reads("key"))
	p.follow(late)
	p.follow(steady)
	p.Must(late.wholes > 1, "a follower learned of deleted rows without all places")
}

// placeRacing changes one place concurrently over two handles, each call something else. No change
// may be lost, and each has a number of its own.
func placeRacing(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	const calls = 8
	errs := dbtest.Race(calls, func(i int) error {
		_, err := Change(p.Ctx, handles[i%2], places.Place{Account: "a"}, func(s *places.Settings, _ places.Settings) (*actions.Act, error) {
			s.Reads += fmt.Sprint(i)
			return nil, nil
		})
		if err != nil {
			return err
		}
		_, err = Change(p.Ctx, handles[i%2], places.Place{Account: fmt.Sprint(i)}, func(s *places.Settings, _ places.Settings) (*actions.Act, error) {
			s.MayOpen = true
			return nil, nil
		})
		return err
	})
	p.OK(errors.Join(errs...), "racing changes")
	list := p.all("a")
	p.Must(len(list) == 1 && len(list[0].Reads) == calls, "of %d changes: %+v", calls, list)
	f := &follower{}
	p.follow(f)
	p.Must(f.version.Number == 2*calls, "%d changes have the version %d", 2*calls, f.version.Number)
}

// placeModel compares the store with a map, after random changes.
func placeModel(p *probe) {
	model, f := map[places.Place]places.Settings{}, &follower{}
	for step := range 300 {
		at := places.Place{Account: fmt.Sprint(rand.IntN(3)), Name: strings.Repeat("a", rand.IntN(4)), Exact: rand.IntN(2) == 0}
		got := p.setAt(p.Store, at, func(s *places.Settings) {
			p.Equal(*s, model[at], "settings before a change")
			if *s = (places.Settings{}); rand.IntN(3) > 0 {
				s.Reads, s.MayOpen = fmt.Sprint(rand.IntN(3)), rand.IntN(2) == 0
			}
		})
		if model[at] = got; !got.Set() {
			delete(model, at)
		}
		if step%7 == 0 {
			p.follow(f)
		}
	}
	list := p.all("")
	p.Must(slices.IsSortedFunc(list, func(a, b places.Row) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Name, b.Name))
	}), "not sorted: %+v", list)
	p.Must(len(list) == len(model), "%d places, want %d", len(list), len(model))
	for _, row := range list {
		p.Equal(row.Settings, model[row.Place], "settings of %+v", row.Place)
	}
}

// placeRecord: a change is told whether the account may open itself, and its act is recorded if and
// only if it has its effect.
func placeRecord(p *probe) {
	version := dbtest.Value(p.Store.KeysVersion(p.Ctx))
	for i, name := range []string{"", "a", "a"} {
		for _, exact := range []bool{false, true} {
			mayOpen := false
			for _, keys := range []int64{version + 1, version} {
				_, err := Change(p.Ctx, p.Store, places.Place{Account: "x", Name: name, Exact: exact}, func(s *places.Settings, account places.Settings) (*actions.Act, error) {
					mayOpen, s.MayOpen, s.Reads = account.MayOpen, !exact && name == "", fmt.Sprint(i, keys)
					return &actions.Act{Keys: keys, Action: actions.Action{Name: "place.set", Subject: fmt.Sprint(i, exact), Accounts: []string{"x"}}}, nil
				})
				p.Must((err == nil) == (keys == version), "a change by the keys %d of %d: %v", keys, version, err)
			}
			p.Must(mayOpen == (i > 0 || exact), "the account may open itself: %t, at %q", mayOpen, name)
			newest := dbtest.Value(p.Store.ListActions(p.Ctx, "", 100))
			p.Must(len(newest) == 2*i+map[bool]int{false: 1, true: 2}[exact], "%d acts are recorded", len(newest))
			p.Clock.Advance(time.Second)
		}
	}
}
