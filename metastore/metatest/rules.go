package metatest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/access/actions"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

var ruleChecks = []dbtest.Check{
	check("rules/history", ruleHistory),
	check("rules/setting", rulesSetting),
	check("rules/places", rulesPlaces),
	check("rules/cut-name", rulesCutName),
	check("rules/replaced", rulesReplaced),
	check("rules/many", rulesMany),
}

// setRules sets an account's rules.
func (p *probe) setRules(account string, rules ...metastore.Rule) metastore.AccountRules {
	return dbtest.Value(p.Store.SetRules(p.Ctx, account, func(was *[]metastore.Rule) (*actions.Act, error) {
		*was = rules
		return nil, nil
	}))
}

// applyRules lets rules run in steps of this size, and returns how much they have removed.
func (p *probe) applyRules(limit int) (all int64) {
	for {
		removed, more, err := p.Store.ApplyRules(p.Ctx, limit)
		p.OK(err, "a step")
		if all += removed; !more {
			return all
		}
	}
}

const twoDays = 48 * time.Hour

// rulesSetting sets, changes and removes rules. A change during a run begins it anew, and no run
// begins before it is due.
func rulesSetting(p *probe) {
	rules := func(account string) metastore.AccountRules { return dbtest.Value(p.Store.Rules(p.Ctx, account)) }
	p.Equal(rules("a"), metastore.AccountRules{Account: "a"}, "no rules")
	for i := range 5 {
		p.Put("a", fmt.Sprint(i))
	}
	p.Clock.Advance(twoDays)
	rule := metastore.Rule{ID: "one", Prefix: "0", Tags: map[string]string{"k": "v"}, AtLeast: 1, Below: 9, ExpireOn: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), DropDays: 3, DropBeyond: 4}
	first := p.setRules("a", rule)
	p.Equal(rules("a"), first, "the rules")
	p.Must(first.Changed.Equal(p.Clock.Now()) && first.Due.Equal(p.Clock.Now()), "set: %+v", first)
	p.setRules("b", metastore.Rule{ID: "b", LoneMarks: true})
	failed := errors.New("failed")
	p.Is(dbtest.Error(p.Store.SetRules(p.Ctx, "a", func(was *[]metastore.Rule) (*actions.Act, error) {
		*was = nil
		return nil, failed
	})), failed, "a change that fails")
	list := dbtest.Value(p.Store.ListRules(p.Ctx, "", 10))
	p.Must(len(list) == 2 && list[1].Account == "b", "the accounts with rules are %+v", list)
	p.Equal(list[0], first, "the listed rules")
	p.Must(len(dbtest.Value(p.Store.ListRules(p.Ctx, "a", 1))) == 1 && len(dbtest.Value(p.Store.ListRules(p.Ctx, "b", 1))) == 0, "pages of accounts with rules")

	p.Must(p.applyRules(100) == 0, "rules without blobs removed some")
	p.Must(rules("a").Due.Equal(metastore.NextMidnight(p.Clock.Now())) && rules("a").Running == nil, "after a run: %+v", rules("a"))
	p.Clock.Advance(time.Minute)
	p.setRules("a", metastore.Rule{ID: "two", ExpireDays: 1})
	removed, more, err := p.Store.ApplyRules(p.Ctx, 2)
	p.Must(err == nil && more && removed == 2, "a step of two removed %d, %t, %v", removed, more, err)
	running := rules("a").Running
	p.Must(running != nil && running.Looked == 2 && running.Taken["two"].Blobs == 2 && rules("a").Last != nil, "during a run: %+v, %+v", running, rules("a").Last)
	p.Equal(p.setRules("a", metastore.Rule{ID: "two", ExpireDays: 1}).Running, running, "the run after no change")
	p.Must(p.setRules("a", metastore.Rule{ID: "three", Prefix: "3", ExpireDays: 1}).Running == nil && rules("a").Running == nil && rules("a").Last != nil, "after a change: %+v", rules("a"))
	p.Must(p.applyRules(1) == 1, "the changed rules removed other blobs")
	p.Put("a", "3")
	p.Clock.Advance(25 * time.Hour)
	p.Must(p.applyRules(1) == 0, "a blob of 25 hours has expired")
	p.Clock.Advance(24 * time.Hour)
	p.Must(p.applyRules(1) == 1, "a blob of two days has not expired")

	_, _, err = p.Store.CountRules(p.Ctx, "a", nil, "{", 1)
	p.Is(err, metastore.ErrRules, "a next that is none")
	p.Equal(p.setRules("a"), metastore.AccountRules{Account: "a"}, "removed rules")
	p.Clock.Advance(25 * time.Hour)
	p.applyRules(1)
	p.Equal(rules("a"), metastore.AccountRules{Account: "a"}, "removed rules afterwards")
}

// rulesPlaces has the things that rules are about besides blobs: markers, and their uploads. The
// bucket's record is not one of them, nor is another account. Without versions a removal is final,
// and shares of contents are counted.
func rulesPlaces(p *probe) {
	markers := metastore.MarkersOf("a")
	for _, n := range []metastore.BlobName{{Account: markers, Name: "\x00"}, {Account: "b", Name: "n"}, {Account: markers, Name: "dir/"}, named("n"), named("other")} {
		p.Put(n.Account, n.Name)
	}
	p.Begin("one", "a", "n")
	p.Begin("two", markers, "dir/")
	p.Begin("three", "b", "n")
	shared := p.put(metastore.Blob{Account: "a", Name: "shared"}, p.Extent(0, 0, 9))
	p.copied(shared, metastore.Blob{Account: "b", Name: "copy"})
	p.Clock.Advance(twoDays)
	p.setRules("a", metastore.Rule{ID: "dir", Prefix: "dir/", ExpireDays: 1}, metastore.Rule{ID: "sh", Prefix: "sh", ExpireDays: 1}, metastore.Rule{ID: "n", Prefix: "n", ExpireDays: 1},
		metastore.Rule{ID: "uploads", AbortDays: 1})
	p.Must(p.applyRules(3) == 5, "the run took %+v", dbtest.Value(p.Store.Rules(p.Ctx, "a")).Last)
	for _, n := range []metastore.BlobName{{Account: markers, Name: "dir/"}, named("n"), named("shared")} {
		p.missing(n, "a run")
	}
	for _, n := range []metastore.BlobName{{Account: markers, Name: "\x00"}, {Account: "b", Name: "n"}, {Account: "b", Name: "copy"}, named("other")} {
		p.OK(dbtest.Error(p.Store.Blob(p.Ctx, n.Account, n.Name)), "%q", n)
	}
	for id, want := range map[string]metastore.UploadState{"one": metastore.UploadAborted, "two": metastore.UploadAborted, "three": metastore.UploadOpen} {
		p.Must(p.Upload(id).State == want, "the upload %s is %s", id, p.Upload(id).State)
	}
	p.Must(!p.isGarbage(shared.Content), "the content of a copy is garbage")
	p.setRules("a", metastore.Rule{ID: "all", ExpireDays: 1})
	p.Must(p.applyRules(100) == 1, "the rule for all took %+v", dbtest.Value(p.Store.Rules(p.Ctx, "a")).Last)
	p.OK(dbtest.Error(p.Store.Blob(p.Ctx, markers, "\x00")), "the bucket's record")
	p.Audited()
}

// rulesCutName lets a step end between the versions of a name, and then removes the newer ones by
// which the others were too many: these remain.
func rulesCutName(p *probe) {
	p.keep()
	for range 7 {
		p.Put("a", "n")
	}
	p.setRules("a", metastore.Rule{ID: "three", DropBeyond: 3})
	if removed, _, err := p.Store.ApplyRules(p.Ctx, 3); err != nil || removed != 0 {
		p.Fail("a step over the three newest removed %d, %v", removed, err)
	}
	for _, b := range p.versions("n")[1:3] {
		dbtest.Value(p.Store.DeleteVersion(p.Ctx, metastore.Deletion{VersionName: metastore.VersionName{BlobName: named("n"), Version: metastore.VersionOf(&b)}}))
	}
	p.Must(p.applyRules(100) == 1, "of four versions, three remain")
	p.Must(len(p.versions("n")) == 4, "%d versions remain", len(p.versions("n")))
	p.Audited()
}

// rulesReplaced replaces old blobs during a run: no new one is removed.
func rulesReplaced(p *probe) {
	const blobs = 40
	handles := []whole.Database{p.Store, p.Open(), p.Open()}
	for i := range blobs {
		p.Put("a", fmt.Sprintf("%02d", i))
	}
	p.Clock.Advance(twoDays)
	p.setRules("a", metastore.Rule{ID: "days", ExpireDays: 1})
	var contents []metastore.ContentID
	for range blobs {
		contents = append(contents, p.Content())
	}
	for i, err := range dbtest.Race(3, func(i int) error {
		if i < 2 {
			for more := true; more; {
				var err error
				if _, more, err = handles[i].ApplyRules(p.Ctx, 10); err != nil {
					return err
				}
			}
			return nil
		}
		for n := range blobs {
			b := metastore.Blob{Account: "a", Name: fmt.Sprintf("%02d", blobs-1-n), Content: contents[n]}
			if _, err := handles[i].CommitBlob(p.Ctx, b, nil, nil); err != nil {
				return err
			}
		}
		return nil
	}) {
		p.OK(err, "caller %d", i)
	}
	for i := range blobs {
		p.OK(dbtest.Error(p.Store.Blob(p.Ctx, "a", fmt.Sprintf("%02d", i))), "a new blob")
	}
	p.Audited()
}

// rulesMany has as many rules as can be, with prefixes of their own: each step is bounded.
func rulesMany(p *probe) {
	var rules []metastore.Rule
	for i := range metastore.MaxRules {
		rules = append(rules, metastore.Rule{ID: fmt.Sprint(i), Prefix: fmt.Sprintf("%02d/%s", i, strings.Repeat("p", 400)), ExpireDays: 1})
	}
	p.OK(metastore.CheckRules(rules), "the rules")
	p.Put("a", rules[0].Prefix+"a")
	p.Put("a", "00/b")
	p.Put("a", rules[99].Prefix+"z")
	p.Clock.Advance(twoDays)
	p.setRules("a", rules...)
	steps, removed := 0, int64(0)
	for more := true; more; steps++ {
		var n int64
		var err error
		n, more, err = p.Store.ApplyRules(p.Ctx, 1000)
		p.OK(err, "a step")
		removed += n
	}
	p.Must(removed == 2 && steps > 4, "%d steps removed %d", steps, removed)
	p.Must(dbtest.Value(p.Store.Rules(p.Ctx, "a")).Last.Looked == 2, "other blobs were looked at")
}
