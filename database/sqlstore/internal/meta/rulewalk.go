package meta

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
)

// The kinds of things that rules are about, in the order in which a run looks at them. Versions are
// first, so that a run and a count find the same ones: a run makes versions of the blobs that it
// removes.
const (
	ruledVersions = iota
	ruledBlobs
	ruledUploads
	ruledKinds
)

// about reports whether a rule is about a kind of things.
func about(r *metastore.Rule, kind int) bool {
	expires := r.ExpireDays > 0 || !r.ExpireOn.IsZero()
	switch kind {
	case ruledVersions:
		return expires || r.DropDays > 0 || r.DropBeyond > 0 || r.LoneMarks
	case ruledBlobs:
		return expires
	}
	return r.AbortDays > 0
}

// ruleUnit are the things of a kind with a prefix, in an account or its account of markers, and
// the rules about them.
type ruleUnit struct {
	kind    int
	account string
	prefix  string
	rules   []metastore.Rule
	tagged  bool // a rule is about tags
	beyond  int  // the greatest DropBeyond
}

// unitsOf returns the units that an account's rules are about. They do not overlap.
func unitsOf(account string, rules []metastore.Rule) (units []ruleUnit) {
	for kind := range ruledKinds {
		u := ruleUnit{kind: kind}
		var prefixes []string
		for _, r := range rules {
			if r.Disabled || !about(&r, kind) {
				continue
			}
			u.rules, prefixes = append(u.rules, r), append(prefixes, r.Prefix)
			u.tagged = u.tagged || len(r.Tags) > 0
			u.beyond = max(u.beyond, r.DropBeyond)
		}
		slices.Sort(prefixes)
		for i, prefix := range prefixes {
			if i > 0 && strings.HasPrefix(prefix, u.prefix) {
				continue
			}
			for _, of := range []string{account, metastore.MarkersOf(account)} {
				u.account, u.prefix = of, prefix
				units = append(units, u)
			}
		}
	}
	return units
}

// ruleCursor is how far a run or a count has come: to the thing After in a unit. The other members
// are about the versions of that name which remain.
type ruleCursor struct {
	Unit  int             `json:"unit"`
	After []byte          `json:"after,omitempty"` // a blob's or version's stored name, or an upload's
	ID    string          `json:"id,omitempty"`    // the upload's
	Time  time.Time       `json:"time,omitzero"`   // when the upload began, or the version was modified
	Newer metastore.Newer `json:"newer,omitzero"`
}

// ruleProgress is how far rules were applied.
type ruleProgress struct {
	metastore.RuleRun
	At ruleCursor `json:"at"`
}

// ruleWalk applies or counts rules.
type ruleWalk struct {
	tx
	*ruleProgress
	units   []ruleUnit
	removes bool // otherwise it counts
	due     []dueVersion
	gone    []goneBlob
	deltas  []usage.Delta
	taken   int64
}

// dueVersion is the stored name of a version that is removed unless it has changed.
type dueVersion struct {
	name   string
	before time.Time // the next newer one's Modified
}

// goneBlob is a blob or version that a rule removes. It is locked.
type goneBlob struct {
	storedBlob
	rule string
}

func (t tx) walk(account string, rules []metastore.Rule, p *ruleProgress) *ruleWalk {
	return &ruleWalk{tx: t, ruleProgress: p, units: unitsOf(account, rules)}
}

// Bounds of a step, besides the number of things.
const (
	ruleQueries   = 50 // units that may have nothing
	rulePageBytes = 4 << 20
)

// step looks at up to limit things, and reports whether none follow.
func (w *ruleWalk) step(limit int) (ended bool, err error) {
	for queries := 0; w.At.Unit < len(w.units) && limit > 0 && queries < ruleQueries; queries++ {
		u := &w.units[w.At.Unit]
		look := w.blobs
		if u.kind == ruledUploads {
			look = w.uploads
		}
		n, more, err := look(u, limit)
		if err == nil {
			err = w.remove()
		}
		if err != nil {
			return false, err
		}
		w.Looked += int64(n)
		if limit -= n; !more {
			w.At = ruleCursor{Unit: w.At.Unit + 1}
		}
	}
	return w.At.Unit >= len(w.units), nil
}

// first returns the rule that takes something now, of those for which at returns a time, or nil.
func (w *ruleWalk) first(u *ruleUnit, at func(*metastore.Rule) time.Time) *metastore.Rule {
	if rule, due := metastore.FirstRule(u.rules, at); rule != nil && !due.After(w.Now) {
		return rule
	}
	return nil
}

// count counts the rows that a rule takes.
func (w *ruleWalk) count(rule string, c metastore.RuleCounts) {
	if w.Taken == nil {
		w.Taken = map[string]metastore.RuleCounts{}
	}
	sum := w.Taken[rule]
	sum.Blobs, sum.Versions, sum.Marks, sum.Uploads, sum.Bytes = sum.Blobs+c.Blobs, sum.Versions+c.Versions, sum.Marks+c.Marks, sum.Uploads+c.Uploads, sum.Bytes+c.Bytes
	w.Taken[rule] = sum
	w.taken++
}

// countBlob is count for a blob, version or mark.
func (w *ruleWalk) countBlob(rule string, b *metastore.Blob) {
	c := metastore.RuleCounts{Bytes: b.Size}
	switch {
	case b.Mark:
		c.Marks = 1
	case b.Since.IsZero():
		c.Blobs = 1
	default:
		c.Versions = 1
	}
	w.count(rule, c)
}

// blobs looks at a page of current blobs or of versions.
func (w *ruleWalk) blobs(u *ruleUnit, limit int) (n int, more bool, err error) {
	q := metastore.ListQuery{Account: u.account, Prefix: u.prefix, After: string(w.At.After), Limit: limit, Bytes: rulePageBytes, Metadata: u.tagged}
	look, live := w.blob, w.Now.UnixMicro()
	if u.kind == ruledVersions {
		q.Account, look, live = metastore.KeptOf(u.account), w.version, math.MinInt64
	}
	list := w.listNames
	if !w.Embedded() {
		list = w.listByStatement
	}
	page, err := list(listing{q, firstName(q), live})
	if err != nil {
		return 0, false, err
	}
	for i := range page.Blobs {
		if err := look(u, page.Blobs[i:]); err != nil {
			return 0, false, err
		}
		w.At.After, w.At.Time = []byte(page.Blobs[i].Name), page.Blobs[i].Modified
	}
	return len(page.Blobs), page.Next != "", w.settle(u)
}

// unruled reports whether a name is one that no rule is about.
func unruled(blobName string) bool { return strings.HasPrefix(blobName, "\x00") }

// undamaged returns found, and no error if a row is damaged: such a row remains for a check.
func undamaged(found bool, err error) (bool, error) {
	if errors.Is(err, database.ErrDamagedRow) {
		return false, nil
	}
	return found, err
}

// blob looks at the first one of several current blobs.
func (w *ruleWalk) blob(u *ruleUnit, list []metastore.Blob) error {
	b := &list[0]
	rule := w.first(u, func(r *metastore.Rule) time.Time { return r.Expires(b) })
	if rule == nil || unruled(b.Name) {
		return nil
	}
	if !w.removes {
		w.countBlob(rule.ID, b)
		return nil
	}
	old, found, err := w.lockBlob(b.Account, b.Name)
	if found, err = undamaged(found, err); err != nil || !found || expired(old.Expires, w.Now) {
		return err
	}
	if rule := w.first(u, func(r *metastore.Rule) time.Time { return r.Expires(&old.Blob) }); rule != nil {
		w.gone = append(w.gone, goneBlob{old, rule.ID})
	}
	return nil
}

// version looks at the first one of several versions, which follow the one that is stored under
// At.After.
func (w *ruleWalk) version(u *ruleUnit, list []metastore.Blob) error {
	b := shown(list[0], w)
	if unruled(b.Name) {
		return nil
	}
	before, lone := w.At.Time, false
	if last, _, _ := metastore.KeptBlob(list[0].Account, string(w.At.After)); last.Name != b.Name {
		if err := w.settle(u); err != nil {
			return err
		}
		before, w.At.Newer = time.Time{}, metastore.Newer{}
		if b.Mark {
			var err error
			if before, lone, err = w.newestMark(&b, list); err != nil {
				return err
			}
		}
	}
	rule := w.takes(u, &b, before, lone, w.At.Newer)
	switch {
	case rule == nil:
		w.At.Newer = spared(w.At.Newer, &b, before)
	case w.removes:
		w.due = append(w.due, dueVersion{list[0].Name, before})
	default:
		w.countBlob(rule.ID, &b)
	}
	return nil
}

// newestMark returns when the blob was modified that follows a name's newest mark, zero if there is
// none, and whether the name has nothing else. list begins with the mark as it is stored.
func (w *ruleWalk) newestMark(mark *metastore.Blob, list []metastore.Blob) (before time.Time, lone bool, err error) {
	current, live, err := w.tx.blob(mark.Account, mark.Name)
	if err != nil && !errors.Is(err, database.ErrDamagedRow) {
		return time.Time{}, false, err
	}
	if live {
		return current.Modified, false, nil
	}
	if len(list) > 1 {
		return time.Time{}, shown(list[1], w).Name != mark.Name, nil
	}
	others, err := w.keptVersions(mark.Account, mark.Name, list[0].Name, 1)
	lone, err = undamaged(len(others) == 0, err)
	return time.Time{}, lone, err
}

// takes returns the rule that removes a version now, or nil: a lock wins. before is when the next
// newer one was modified, which is when a mark ceased to be current; zero: there is none.
func (w *ruleWalk) takes(u *ruleUnit, b *metastore.Blob, before time.Time, lone bool, newer metastore.Newer) *metastore.Rule {
	if b.Lock.Holds(w.Now) {
		return nil
	}
	since := b.Since
	if b.Mark {
		since = before
	}
	return w.first(u, func(r *metastore.Rule) time.Time {
		switch {
		case !since.IsZero():
			return r.Drops(b, since, newer)
		case lone:
			return r.Expires(b)
		}
		return time.Time{}
	})
}

// spared counts a version that remains. A mark is current if nothing is newer.
func spared(n metastore.Newer, b *metastore.Blob, before time.Time) metastore.Newer {
	switch {
	case !b.Mark:
		n.Versions++
	case !before.IsZero():
		n.Marks++
	}
	return n
}

// settle locks the name with due versions, and finds those which rules still remove.
func (w *ruleWalk) settle(u *ruleUnit) error {
	due := w.due
	if w.due = nil; len(due) == 0 {
		return nil
	}
	of, _, _ := metastore.KeptBlob(metastore.KeptOf(u.account), due[0].name)
	var rows []storedBlob
	current, live, err := w.lockBlob(of.Account, of.Name)
	if err == nil {
		rows, err = w.keptVersions(of.Account, of.Name, "", 2*u.beyond+16)
	}
	for i := 0; i < len(due) && err == nil && len(rows) > 0; i++ {
		if due[i].name <= rows[len(rows)-1].Name {
			continue
		}
		var b storedBlob
		var found bool
		if b, found, err = w.tx.blob(metastore.KeptOf(u.account), due[i].name); found && err == nil {
			rows = append(rows, b)
		}
	}
	if ok, err := undamaged(true, err); err != nil || !ok {
		return err
	}
	before, newer := current.Modified, metastore.Newer{}
	if !live {
		before = time.Time{}
	}
	for i := range rows {
		b := shown(rows[i].Blob, w)
		for len(due) > 0 && due[0].name < rows[i].Name {
			due = due[1:]
		}
		found := len(due) > 0 && due[0].name == rows[i].Name
		if found && !before.IsZero() {
			before = due[0].before // the next newer one may have been removed
		}
		rule := w.takes(u, &b, before, i == 0 && !live && len(rows) == 1, newer)
		if found && rule != nil {
			w.gone = append(w.gone, goneBlob{rows[i], rule.ID})
		} else {
			newer = spared(newer, &b, before)
		}
		before = b.Modified
	}
	return nil
}

// remove removes the blobs and versions that are gone, in lockShares' order.
func (w *ruleWalk) remove() (err error) {
	slices.SortStableFunc(w.gone, func(a, b goneBlob) int { return bytes.Compare(a.Content[:], b.Content[:]) })
	for _, g := range w.gone {
		b := shown(g.Blob, w)
		if b.Since.IsZero() {
			w.deltas, err = w.retire(g.storedBlob, "rule:"+g.rule, w.Now, w.deltas, metastore.ChangeRuleExpired)
			if errors.Is(err, database.ErrDamagedRow) { // it remains for a check
				continue
			}
		} else {
			_, w.deltas, err = w.removeVersion(g.storedBlob, w.deltas)
		}
		if err != nil {
			return err
		}
		w.countBlob(g.rule, &b)
	}
	w.gone = nil
	return nil
}

// retire removes a blob, which lockBlob has returned. If its account has a rule, it is kept like
// one that was removed at a time. With database.ErrDamagedRow, about a version, nothing is changed.
func (t tx) retire(old storedBlob, by string, since time.Time, deltas []usage.Delta, kind metastore.ChangeKind) (_ []usage.Delta, err error) {
	if old.rule != 0 {
		if _, err := t.keptVersions(old.Account, old.Name, "", 2*old.rule.most()+16); err != nil {
			return deltas, err
		}
	}
	_, deltas, err = t.release(old, true, false, deltas)
	if err == nil && old.rule != 0 {
		_, deltas, err = t.mark(old, true, by, old.Owner, since, deltas)
	}
	if err != nil {
		return nil, err
	}
	t.changed(kind, &old.Blob)
	return deltas, t.removeBlob(old.Blob)
}

// uploads looks at a page of open uploads.
func (w *ruleWalk) uploads(u *ruleUnit, limit int) (n int, more bool, err error) {
	after := []byte(u.prefix)
	if w.At.ID != "" {
		after = w.At.After
	}
	page, more, err := w.uploadsBehind(u.account, after, w.At.Time.UnixMicro(), w.At.ID, engine.NewBound(limit, rulePageBytes))
	if err != nil {
		return 0, false, err
	}
	for i := range page {
		p := &page[i]
		if !strings.HasPrefix(p.Name, u.prefix) {
			return i, false, nil
		}
		w.At.After, w.At.Time, w.At.ID = []byte(p.Name), p.Created, p.ID
		rule := w.first(u, func(r *metastore.Rule) time.Time { return r.Aborts(p) })
		if rule == nil {
			continue
		}
		if w.removes {
			now, err := w.upload(p.ID)
			if errors.Is(err, database.ErrNotFound) || errors.Is(err, database.ErrLost) || err == nil && now.State != metastore.UploadOpen {
				continue
			}
			if err == nil {
				w.deltas = append(w.deltas, uploadUsage(now).Negated(), uploadGarbage(now))
				err = w.abort([]byte(now.ID), now.Content, uploadGarbage(now))
			}
			if err != nil {
				return 0, false, err
			}
			p = &now
		}
		w.count(rule.ID, metastore.RuleCounts{Uploads: 1, Bytes: p.Bytes})
	}
	return len(page), more, nil
}
