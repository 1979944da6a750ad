package metatest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"sluice/access/actions"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

// ruleHistory plays random histories in an account with versions, uploads and rules, and compares
// each run, and the count before it, with a simple model of S3's rules.
func ruleHistory(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	p.Play(func(t *rapid.T, round int) {
		v := versionModel{history: history{p: p, handles: handles}, account: fmt.Sprint("rules", round), names: map[string][]metastore.Blob{}}
		m := &ruleModel{versionModel: v, uploads: map[string]metastore.Upload{}}
		m.set(p.Store, metastore.Keeping{State: metastore.KeepOn})
		for range rapid.IntRange(10, 30).Draw(t, "steps") {
			m.ruleStep(t)
			m.compare(m.handle(t), metastore.ListQuery{Limit: 100, Metadata: true})
			m.compareUploads(m.handle(t))
		}
		p.Audited()
		m.setRules(m.handle(t), nil)
		m.leave()
	})
}

// ruleModel is a versionModel with rules and open uploads.
type ruleModel struct {
	versionModel
	rules   []metastore.Rule
	due     time.Time // when the rules run next
	uploads map[string]metastore.Upload
}

func (m *ruleModel) ruleStep(t *rapid.T) {
	s := m.handle(t)
	switch rapid.SampledFrom([]string{"any", "any", "put", "put", "begin", "rules", "run", "run", "day"}).Draw(t, "rule verb") {
	case "any":
		m.step(t)
		for id := range m.uploads { // a purge aborts those that are idle
			if m.p.Upload(id).State != metastore.UploadOpen {
				delete(m.uploads, id)
			}
		}
	case "put":
		m.made++
		b := metastore.Blob{Account: m.account, Name: rapid.SampledFrom(versionNames).Draw(t, "name"), Content: m.p.Content(), CRC64: uint64(m.made), Size: int64(rapid.IntRange(0, 3).Draw(t, "size")),
			Metadata: rapid.SampledFrom([]string{"", "X-Amz-Tagging:k&v\n", "X-Amz-Tagging:k&w&x&v\n"}).Draw(t, "tags")}
		var extents []metastore.Extent
		if b.Size > 0 {
			extents = append(extents, m.p.Extent(0, 0, b.Size))
		}
		got, err := s.CommitBlob(m.p.Ctx, b, extents, nil)
		m.commit(got, b, err)
	case "begin":
		m.made++
		u := m.p.Begin(fmt.Sprint(m.account, "-", m.made), m.account, rapid.SampledFrom(versionNames).Draw(t, "name"))
		m.p.part(u.ID, 0, 5)
		m.uploads[u.ID] = m.p.Upload(u.ID)
	case "rules":
		m.setRules(s, rapid.Custom(m.drawRules).Draw(t, "rules"))
	case "run":
		m.run(t)
	case "day":
		m.p.Clock.Advance(24*time.Hour + time.Duration(m.made)*time.Microsecond)
	}
}

// drawRules returns rules that an account can have.
func (m *ruleModel) drawRules(t *rapid.T) (rules []metastore.Rule) {
	for i := range rapid.IntRange(1, 4).Draw(t, "number") {
		r := metastore.Rule{
			ID: fmt.Sprint("rule ", i), Disabled: rapid.IntRange(0, 9).Draw(t, "disabled") == 0, Prefix: rapid.SampledFrom([]string{"", "", "a", "a/", "nn"}).Draw(t, "prefix"),
			AtLeast: rapid.SampledFrom([]int64{0, 0, 1}).Draw(t, "at least"), Below: rapid.SampledFrom([]int64{0, 0, 3}).Draw(t, "below"),
			DropDays: rapid.IntRange(0, 2).Draw(t, "drop days"), DropBeyond: rapid.IntRange(0, 2).Draw(t, "drop beyond"),
			AbortDays: rapid.IntRange(0, 1).Draw(t, "abort days"), LoneMarks: rapid.Bool().Draw(t, "lone marks"),
		}
		switch rapid.IntRange(0, 3).Draw(t, "expires") {
		case 0:
			r.ExpireDays = rapid.IntRange(1, 2).Draw(t, "expire days")
		case 1:
			r.ExpireOn = nextDay(m.p.Clock.Now(), rapid.IntRange(-1, 1).Draw(t, "expire on"))
		}
		if rapid.IntRange(0, 3).Draw(t, "tagged") == 0 {
			r.Tags = map[string]string{"k": "v"}
		}
		if filtered := r.AtLeast+r.Below > 0 || r.Tags != nil; filtered || r.ExpireDays > 0 || !r.ExpireOn.IsZero() {
			r.LoneMarks = false
			if filtered {
				r.AbortDays = 0
			}
		}
		if metastore.CheckRules([]metastore.Rule{r}) == nil {
			rules = append(rules, r)
		}
	}
	return rules
}

func (m *ruleModel) setRules(s whole.Database, rules []metastore.Rule) {
	got := dbtest.Value(s.SetRules(m.p.Ctx, m.account, func(was *[]metastore.Rule) (*actions.Act, error) {
		m.p.Equal(*was, m.rules, "the rules before")
		*was = rules
		return nil, nil
	}))
	m.p.Equal(got.Rules, rules, "the rules")
	if !dbtest.Same(rules, m.rules) {
		m.due = m.p.Clock.Now()
	}
	m.rules = rules
}

// nextDay returns the midnight that is so many days after the next one.
func nextDay(t time.Time, days int) time.Time {
	y, month, d := t.UTC().Date()
	return time.Date(y, month, d+1+days, 0, 0, 0, 0, time.UTC)
}

// run counts, and then lets the rules run by one handle or by two at once, with any steps.
func (m *ruleModel) run(t *rapid.T) {
	limit, now := rapid.IntRange(1, 7).Draw(t, "limit"), m.p.Clock.Now()
	counted := map[string]metastore.RuleCounts{}
	for next, more := "", true; more; more = next != "" {
		var run metastore.RuleRun
		var err error
		run, next, err = m.handle(t).CountRules(m.p.Ctx, m.account, m.rules, next, limit)
		m.p.OK(err, "a count")
		for id, c := range run.Taken {
			counted[id] = sum(counted[id], c)
		}
	}
	due := len(m.rules) > 0 && !now.Before(m.due)
	racing := rapid.Bool().Draw(t, "racing")
	if reopening := due && !racing && rapid.Bool().Draw(t, "reopening"); reopening {
		_, more, err := m.handle(t).ApplyRules(m.p.Ctx, limit)
		m.p.Must(err == nil && more, "a step: %v, %t", err, more)
		m.Reopen()
	}
	runs := []whole.Database{m.handle(t)}
	if racing {
		runs = m.handles
	}
	for _, err := range dbtest.Race(len(runs), func(i int) error {
		for more := true; more; {
			var err error
			if _, more, err = runs[i].ApplyRules(m.p.Ctx, limit); err != nil {
				return err
			}
		}
		return nil
	}) {
		m.p.OK(err, "a run")
	}
	want := m.wouldTake(due)
	m.p.Equal(counted, want, "what the rules %+v would take", m.rules)
	if !due {
		return
	}
	m.due = nextDay(now, 0)
	got := dbtest.Value(m.handle(t).Rules(m.p.Ctx, m.account))
	m.p.Must(got.Running == nil && got.Last != nil, "after a run: %+v", got)
	m.p.Must(got.Due.Equal(m.due) && got.Last.Began.Equal(now) && got.Last.Ended.Equal(now), "after a run at %v: %+v, %+v", now, got, got.Last)
	m.p.Must(maps.Equal(got.Last.Taken, want), "the rules %+v took\n%+v, want\n%+v", m.rules, got.Last.Taken, want)
}

func sum(a, b metastore.RuleCounts) metastore.RuleCounts {
	return metastore.RuleCounts{Blobs: a.Blobs + b.Blobs, Versions: a.Versions + b.Versions, Marks: a.Marks + b.Marks, Uploads: a.Uploads + b.Uploads, Bytes: a.Bytes + b.Bytes}
}

// earliest returns which rule is due first, if any is due now: its id.
func (m *ruleModel) earliest(due func(r *metastore.Rule) (at time.Time, ok bool)) (id string) {
	var first time.Time
	for i := range m.rules {
		at, ok := due(&m.rules[i])
		if ok && !m.rules[i].Disabled && !m.p.Clock.Now().Before(at) && (id == "" || at.Before(first)) {
			id, first = m.rules[i].ID, at
		}
	}
	return id
}

func matches(r *metastore.Rule, b *metastore.Blob) bool {
	return strings.HasPrefix(b.Name, r.Prefix) && b.Size >= r.AtLeast && (r.Below == 0 || b.Size < r.Below) && (r.Tags == nil || strings.Contains(b.Metadata, ":k&v"))
}

// expiration is the action Expiration, which also removes a mark that is alone.
func expiration(b *metastore.Blob) func(r *metastore.Rule) (time.Time, bool) {
	return func(r *metastore.Rule) (time.Time, bool) {
		switch {
		case r.LoneMarks && b.Mark:
			return b.Modified, matches(r, b)
		case r.ExpireDays > 0:
			return nextDay(b.Modified, r.ExpireDays), matches(r, b)
		}
		return r.ExpireOn, !r.ExpireOn.IsZero() && matches(r, b)
	}
}

// wouldTake returns the rows of each kind that the rules take, and if they run, takes it.
func (m *ruleModel) wouldTake(runs bool) map[string]metastore.RuleCounts {
	taken := map[string]metastore.RuleCounts{}
	take := func(id string, c metastore.RuleCounts) { taken[id] = sum(taken[id], c) }
	expired := map[string]string{}
	for name, list := range m.names {
		n := m.current(name)
		kept, versions, marks := slices.Clone(list[:n]), 0, 0
		for i, b := range list[n:] {
			i += n
			latest, since := b.Mark && i == 0, b.Since
			if b.Mark && !latest {
				since = list[i-1].Modified
			}
			due := expiration(&b)
			if !latest {
				due = func(r *metastore.Rule) (time.Time, bool) {
					at := since
					if r.DropDays > 0 {
						at = nextDay(since, r.DropDays)
					}
					return at, r.DropDays+r.DropBeyond > 0 && matches(r, &b) && (versions >= r.DropBeyond || b.Mark && marks >= r.DropBeyond)
				}
			}
			id := ""
			if !latest || len(list) == 1 {
				id = m.earliest(due)
			}
			switch {
			case id != "" && b.Mark:
				take(id, metastore.RuleCounts{Marks: 1})
			case id != "":
				take(id, metastore.RuleCounts{Versions: 1, Bytes: b.Size})
			default:
				if kept = append(kept, b); !b.Mark {
					versions++
				} else if !latest {
					marks++
				}
			}
		}
		if n == 1 && !m.expired(list[0].Expires) {
			if id := m.earliest(expiration(&list[0])); id != "" {
				take(id, metastore.RuleCounts{Blobs: 1, Bytes: list[0].Size})
				expired[name] = id
			}
		}
		if runs {
			m.names[name] = kept
		}
	}
	for _, u := range m.uploads {
		id := m.earliest(func(r *metastore.Rule) (time.Time, bool) {
			return nextDay(u.Created, r.AbortDays), r.AbortDays > 0 && strings.HasPrefix(u.Name, r.Prefix)
		})
		if id == "" {
			continue
		}
		if take(id, metastore.RuleCounts{Uploads: 1, Bytes: u.Bytes}); runs {
			delete(m.uploads, u.ID)
		}
	}
	if runs {
		for name, id := range expired {
			owner := m.names[name][0].Owner
			m.retire(name)
			m.mark(name, "rule:"+id, owner, m.p.Clock.Now())
		}
	}
	return taken
}

// compareUploads compares the open uploads.
func (m *ruleModel) compareUploads(s whole.Database) {
	list, _, err := s.ListUploads(m.p.Ctx, m.account, "", 1000, 0)
	m.p.OK(err, "the open uploads")
	for _, u := range list {
		m.p.Must(m.uploads[u.ID].ID == u.ID, "the upload %s is open", u.ID)
	}
	m.p.Must(len(list) == len(m.uploads), "%d uploads are open, not %d", len(list), len(m.uploads))
}
