package metatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/ledger"
	"sluice/metastore"
)

func historyChecks() []dbtest.Check {
	return []dbtest.Check{check("model/history", modelHistory)}
}

// modelHistory plays random histories on two handles and compares every result with a simple model
// in memory. Each history uses a separate account and separate ids.
func modelHistory(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	p.Play(func(t *rapid.T, round int) {
		h := &history{p: p, handles: handles, model: newModel(fmt.Sprint("account", round))}
		for range rapid.IntRange(10, 60).Draw(t, "steps") {
			h.step(t)
			h.usage()
		}
		h.settle()
		h.accounts()
		h.leave()
		h.accounts()
	})
}

// model is the expected state after a history.
type model struct {
	account  string
	blobs    map[string]metastore.Blob
	deleted  map[string]time.Time // when the version deleted last was modified
	uploads  map[string]*modelUpload
	sessions map[string]ledger.Session
	once     map[string]modelOnce
	extents  map[metastore.ContentID][]metastore.Extent
	garbage  map[metastore.ContentID]bool // without those that the store created
	moved    []string                     // keys of replaced parts
	charges  map[string]modelCharge       // of garbage, by its content or, for a replaced part, by its key
}

// modelCharge is the charge for garbage to its owner.
type modelCharge struct {
	owner string
	bytes int64
}

type modelUpload struct {
	metastore.Upload
	parts     map[int]metastore.Extent
	forgotten bool // by a purge
}

type modelOnce struct {
	outcome ledger.Session
	at      time.Time
	owner   string
}

func newModel(account string) *model {
	return &model{
		account: account,
		blobs:   map[string]metastore.Blob{}, deleted: map[string]time.Time{}, uploads: map[string]*modelUpload{}, sessions: map[string]ledger.Session{},
		once: map[string]modelOnce{}, extents: map[metastore.ContentID][]metastore.Extent{}, garbage: map[metastore.ContentID]bool{}, charges: map[string]modelCharge{},
	}
}

// current is the blob that a precondition gets.
func (m *model) current(name string, now time.Time) *metastore.Blob {
	b, ok := m.blobs[name]
	if !ok || (!b.Expires.IsZero() && !now.Before(b.Expires)) {
		return nil
	}
	return &b
}

// discard makes a content garbage that counts these bytes to an owner.
func (m *model) discard(content metastore.ContentID, owner string, bytes int64) {
	m.garbage[content] = true
	m.charges[content.String()] = modelCharge{owner, bytes}
}

// release makes a content garbage after its blob is gone, unless another blob has it.
func (m *model) release(old metastore.Blob) {
	for _, b := range m.blobs {
		if b.Content == old.Content {
			return
		}
	}
	m.discard(old.Content, old.Owner, old.Size+1024)
}

func (m *model) replace(b metastore.Blob) metastore.Blob {
	last := m.deleted[b.Name]
	old, ok := m.blobs[b.Name]
	if ok {
		last = old.Modified
	}
	b.SharedSecond = last.Truncate(time.Second).Equal(b.Modified.Truncate(time.Second))
	m.blobs[b.Name] = b
	if ok {
		m.release(old)
	}
	return b
}

// history is a model and the store that it is compared with.
type history struct {
	p       *probe
	handles []whole.Database
	model   *model
	made    int
}

var modelNames = []string{"a", "a/b", "a/c", "b", strings.Repeat("n", 2000) + "1", strings.Repeat("n", 2000) + "2"}

func (h *history) step(t *rapid.T) {
	s := h.handles[rapid.IntRange(0, len(h.handles)-1).Draw(t, "handle")]
	name := rapid.SampledFrom(modelNames).Draw(t, "name")
	id := fmt.Sprint(h.model.account, "-", rapid.IntRange(0, 2).Draw(t, "id"))
	owner := rapid.SampledFrom(h.owners()).Draw(t, "owner")
	ctx := h.p.Ctx
	commit := func(create bool) {
		h.commit(ctx, s, name, owner, create, rapid.IntRange(0, 3).Draw(t, "expiring") == 0)
	}
	// The first ones are drawn more often.
	verb := rapid.SampledFrom([]string{
		"begin", "part", "complete", "commit", "advance", "part", "purge", "churn", "abort", "delete", "create",
		"commit", "get", "list", "session", "use", "use", "use once", "reopen", "copy", "copy", "move",
	}).Draw(t, "verb")
	other := func() string { return rapid.SampledFrom(modelNames).Draw(t, "other name") }
	map[string]func(){
		"commit": func() { commit(false) },
		"create": func() { commit(true) },
		"delete": func() { h.remove(ctx, s, name) },
		"copy": func() {
			h.copy(ctx, s, name, other(), owner, rapid.Bool().Draw(t, "restated"), rapid.IntRange(0, 3).Draw(t, "expiring") == 0, rapid.IntRange(0, 3).Draw(t, "create only") == 0)
		},
		"move": func() { h.move(ctx, s, name, other(), owner, rapid.IntRange(0, 3).Draw(t, "create only") == 0) },
		"get":  func() { h.get(ctx, s, name) },
		"list": func() {
			limit := rapid.IntRange(1, 4).Draw(t, "limit")
			delimiter := rapid.SampledFrom([]string{"", "/", "n"}).Draw(t, "delimiter")
			h.accounts()
			h.list(ctx, s, metastore.ListQuery{Account: h.model.account, Delimiter: delimiter, Limit: limit, Metadata: rapid.Bool().Draw(t, "metadata")})
		},
		"begin": func() { h.Begin(ctx, s, id, name, owner, rapid.Bool().Draw(t, "uneven")) },
		"part":  func() { h.part(ctx, s, id, rapid.IntRange(0, 2).Draw(t, "part")) },
		"complete": func() {
			h.Complete(ctx, s, id, rapid.IntRange(0, 4).Draw(t, "stale") == 4, rapid.Bool().Draw(t, "create only"), rapid.IntRange(1, 7).Draw(t, "chosen"))
		},
		"abort":    func() { h.abort(ctx, s, id) },
		"session":  func() { h.Session(ctx, s, id, rapid.Int64Range(0, 3).Draw(t, "chunksets")) },
		"use":      func() { h.use(ctx, s, id, "") },
		"use once": func() { h.use(ctx, s, id, rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key")) },
		"churn":    func() { h.churn(ctx, s, owner) },
		"purge":    func() { h.Purge(ctx, s, rapid.SampledFrom([]int{2, 10, 100}).Draw(t, "limit")) },
		"reopen":   h.Reopen,
		"advance": func() {
			h.p.Clock.Advance(rapid.SampledFrom([]time.Duration{time.Microsecond, time.Minute, time.Hour, 25 * time.Hour, 8 * 24 * time.Hour}).Draw(t, "time"))
		},
	}[verb]()
}

func (h *history) commit(ctx context.Context, s whole.Database, name, owner string, create, expiring bool) {
	m, now := h.model, h.p.Clock.Now()
	b := metastore.Blob{Account: m.account, Name: name, Content: h.p.Content(), Size: 4 + int64(h.made), CRC64: uint64(h.made), Owner: owner, Metadata: h.metadata()}
	h.made++
	if expiring {
		b.Expires = h.expiry()
	}
	extents := []metastore.Extent{h.p.Extent(0, 0, b.Size-1), h.p.Inline(0, b.Size-1, []byte("x"))}
	var precondition metastore.Precondition
	var wantErr error
	if create {
		precondition = createOnly
		wantErr = createOnly(m.current(name, now))
	}
	got, err := s.CommitBlob(ctx, b, extents, precondition)
	b.Modified = now
	if wantErr == nil {
		b = m.replace(b)
		m.extents[b.Content] = stored(extents...)
	}
	h.p.Agree("commit", got, b, err, wantErr)
}

// expiry returns a time that no other blob expires at, so that the order of their purge is known.
func (h *history) expiry() time.Time {
	h.made++
	return h.p.Clock.Now().Add(time.Hour + time.Duration(h.made)*time.Microsecond)
}

// metadata returns the next blob's or upload's metadata: every other one has none.
func (h *history) metadata() string { return strings.Repeat("m", h.made%2*h.made) }

func (h *history) remove(ctx context.Context, s whole.Database, name string) {
	old, had := h.model.blobs[name]
	id, got, err := dbtest.Remove(ctx, s, h.model.account, name, nil)
	var garbage metastore.ContentID
	if had {
		h.model.deleted[name] = old.Modified
		delete(h.model.blobs, name)
		h.model.release(old)
		if h.model.garbage[old.Content] {
			garbage = old.Content
		}
	}
	h.p.Agree("delete", fmt.Sprint(id, got), fmt.Sprint(garbage, had), err, nil)
}

// source returns a copy of the blob that a copy or a move has as its source, with an error that
// either returns, if any.
func (h *history) source(from, to string, create bool) (metastore.Blob, metastore.Precondition, error) {
	source := h.model.current(from, h.p.Clock.Now())
	if source == nil {
		return metastore.Blob{}, nil, metastore.ErrNoSource
	}
	if create {
		return *source, createOnly, createOnly(h.model.current(to, h.p.Clock.Now()))
	}
	return *source, nil, nil
}

func (h *history) copy(ctx context.Context, s whole.Database, from, to, owner string, restated, expiring, create bool) {
	m := h.model
	want, precondition, wantErr := h.source(from, to, create)
	c := metastore.Copy{
		From: metastore.BlobName{Account: m.account, Name: from}, Restated: restated, Precondition: precondition,
		To: metastore.Blob{Account: m.account, Name: to, Owner: owner, ContentType: "restated", Metadata: h.metadata()},
	}
	if expiring {
		c.To.Expires = h.expiry()
	}
	got, err := s.CopyBlob(ctx, c)
	if wantErr == nil {
		want.Name, want.Owner, want.Expires, want.Modified = to, owner, c.To.Expires, h.p.Clock.Now()
		if restated {
			want.ContentType, want.Metadata = c.To.ContentType, c.To.Metadata
		}
		if want.Size == 0 && from != to { // an empty content is not shared
			h.p.Must(got.Content != want.Content, "a copy shares an empty content")
			want.Content = got.Content
		}
		want = m.replace(want)
	}
	h.p.Agree("copy", got, want, err, wantErr)
}

func (h *history) move(ctx context.Context, s whole.Database, from, to, owner string, create bool) {
	m := h.model
	want, precondition, wantErr := h.source(from, to, create)
	name := func(name string) metastore.BlobName { return metastore.BlobName{Account: m.account, Name: name} }
	got, err := s.MoveBlob(ctx, metastore.Move{From: name(from), To: name(to), Owner: owner, Precondition: precondition})
	if wantErr == nil && from != to {
		m.deleted[from] = want.Modified
		delete(m.blobs, from)
		want.Name, want.Owner, want.Modified = to, owner, h.p.Clock.Now()
		want = m.replace(want)
	}
	h.p.Agree("move", got, want, err, wantErr)
}

func (h *history) get(ctx context.Context, s whole.Database, name string) {
	m, now := h.model, h.p.Clock.Now()
	want, ok := m.blobs[name]
	var wantErr error
	switch {
	case !ok || (!want.Expires.IsZero() && !now.Before(want.Expires.Add(metastore.ExpiredBlobGrace))):
		wantErr = database.ErrNotFound
	case m.current(name, now) == nil:
		wantErr = database.ErrExpired
	}
	got, err := s.Blob(ctx, m.account, name)
	h.p.Agree("blob", got, want, err, wantErr)
	if wantErr == nil {
		extents, err := s.Extents(ctx, got.Content, metastore.Position{}, 100)
		h.p.Agree("extents", extents, m.extents[got.Content], err, nil)
	}
}

func (h *history) list(ctx context.Context, s whole.Database, q metastore.ListQuery) {
	var names []string
	for n := range h.model.blobs {
		if h.model.current(n, h.p.Clock.Now()) != nil {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for {
		got := dbtest.Value(s.ListBlobs(ctx, q))
		want := modelPage(names, q)
		var listedNames []string
		for _, b := range got.Blobs {
			listedNames = append(listedNames, b.Name)
			listed := h.model.blobs[b.Name]
			if !q.Metadata {
				listed.Metadata = ""
			}
			h.p.Equal(b, listed, "listed blob")
		}
		if !slices.Equal(listedNames, want.names) || !slices.Equal(got.Prefixes, want.groups) || got.Next != want.next {
			h.p.Fail("list %+v: got %q %q %q, want %q", q, listedNames, got.Prefixes, got.Next, want)
		}
		if q.After = got.Next; q.After == "" {
			return
		}
	}
}

func (h *history) Begin(ctx context.Context, s whole.Database, id, name, owner string, uneven bool) {
	if _, ok := h.model.uploads[id]; ok {
		return
	}
	now := h.p.Clock.Now()
	u := metastore.Upload{ID: id, Account: h.model.account, Name: name, Content: h.p.Content(), PartSize: 10, Owner: owner, Metadata: h.metadata()}
	if uneven {
		u.PartSize = 0
	}
	got, err := s.BeginUpload(ctx, u)
	u.State, u.Created, u.Touched, u.Revision = metastore.UploadOpen, now, now, got.Revision
	h.model.uploads[id] = &modelUpload{Upload: u, parts: map[int]metastore.Extent{}}
	h.p.Agree("begin", got, u, err, nil)
}

// Upload returns the model's upload, or the error that every method returns.
func (h *history) Upload(id string) (*modelUpload, error) {
	u, ok := h.model.uploads[id]
	if !ok || (!u.Ended.IsZero() && !h.p.Clock.Now().Before(u.Ended.Add(metastore.UploadRetention))) {
		return nil, database.ErrNotFound
	}
	return u, nil
}

func (h *history) part(ctx context.Context, s whole.Database, id string, index int) {
	u, wantErr := h.Upload(id)
	if wantErr == nil {
		wantErr = map[metastore.UploadState]error{
			metastore.UploadAborted: metastore.ErrAborted, metastore.UploadCommitted: metastore.ErrCommitted,
		}[u.State]
	}
	h.made++
	e := h.p.Extent(index, 0, int64(h.made))
	err := s.PutPart(ctx, id, metastore.Part{Index: index, Size: e.Size}, []metastore.Extent{e})
	h.p.Agree("part", nil, nil, err, wantErr)
	if wantErr != nil {
		return
	}
	if old, again := u.parts[index]; again {
		h.model.moved = append(h.model.moved, old.Object)
		h.model.charges[old.Object] = modelCharge{u.Owner, old.Size + 1024}
		u.Bytes -= old.Size
	}
	u.parts[index] = e
	u.Bytes += e.Size
	u.Parts = int64(len(u.parts))
	u.Touched = h.p.Clock.Now()
	got, err := s.Upload(ctx, id)
	h.p.Must(err != nil || got.Revision > u.Revision, "revision went from %d to %d", u.Revision, got.Revision)
	u.Revision = got.Revision
	h.p.Agree("upload", got, u.Upload, err, nil)
}

func (h *history) abort(ctx context.Context, s whole.Database, id string) {
	u, wantErr := h.Upload(id)
	if wantErr == nil && u.State == metastore.UploadCommitted {
		wantErr = metastore.ErrCommitted
	}
	got, err := s.AbortUpload(ctx, id)
	if wantErr != nil {
		h.p.Agree("abort", nil, nil, err, wantErr)
		return
	}
	if u.State == metastore.UploadOpen {
		h.model.abort(u, h.p.Clock.Now())
	}
	h.p.Agree("abort", got, u.Content, err, nil)
}

// abort ends an upload. Its parts become garbage.
func (m *model) abort(u *modelUpload, now time.Time) {
	m.discard(u.Content, u.Owner, u.Bytes+1024*max(1, int64(len(u.parts))))
	u.State, u.Ended = metastore.UploadAborted, now
	u.end()
}

// end removes the members that an ended upload does not retain.
func (u *modelUpload) end() {
	u.Parts, u.ContentType, u.Metadata, u.parts = 0, "", "", nil
}

func (h *history) Session(ctx context.Context, s whole.Database, id string, left int64) {
	now := h.p.Clock.Now()
	want := ledger.Session{ID: id, Total: left, Left: left, Created: now, Expires: now.Add(2 * time.Hour)}
	var wantErr error
	if _, ok := h.model.sessions[id]; ok {
		wantErr = database.ErrExists
	} else {
		h.model.sessions[id] = want
	}
	got, err := s.CreateSession(ctx, want, nil)
	h.p.Agree("create session", got, want, err, wantErr)
}

func (h *history) use(ctx context.Context, s whole.Database, id, key string) {
	m, now := h.model, h.p.Clock.Now()
	var once *database.Idempotency
	if key != "" {
		once = dbtest.Idem(id, key)
		once.Owner = h.owners()[int(key[0])%2] // k has an owner, l has none
	}
	got, err := s.UseSession(ctx, id, 1, once)
	if o, ok := m.once[id+key]; ok && key != "" && now.Before(o.at.Add(database.IdempotencyRetention)) {
		h.p.Agree("use replayed", got, o.outcome, err, nil)
		return
	}
	want, ok := m.sessions[id]
	switch {
	case !ok || !now.Before(want.Expires.Add(ledger.SessionRetention)):
		h.p.Agree("use", nil, nil, err, database.ErrNotFound)
		return
	case !now.Before(want.Expires):
		h.p.Agree("use", nil, nil, err, database.ErrExpired)
		return
	case want.Left == 0:
		h.p.Agree("use", nil, nil, err, ledger.ErrExhausted)
		return
	}
	want.Left--
	want.Used++
	m.sessions[id] = want
	if key != "" {
		m.once[id+key] = modelOnce{outcome: want, at: now, owner: once.Owner}
	}
	h.p.Agree("use", got, want, err, nil)
}

// settle compares the garbage with the model's, and drops it.
func (h *history) settle() {
	s, ctx, m := h.handles[0], h.p.Ctx, h.model
	var moved []string
	for _, g := range dbtest.Value(s.GarbageContents(ctx, 0, metastore.GarbageContent{}, 10_000)) {
		id := g.Content
		extents := dbtest.Value(s.Extents(ctx, id, metastore.Position{}, 100))
		if !m.garbage[id] { // created by the store for the replaced parts
			for _, e := range extents {
				moved = append(moved, e.Object)
				delete(m.charges, e.Object)
			}
		}
		delete(m.garbage, id)
		delete(m.charges, id.String())
		h.p.OK(errors.Join(s.DropExtents(ctx, id, positions(extents)), s.DropContent(ctx, id)), "drop")
	}
	slices.Sort(moved)
	slices.Sort(m.moved)
	h.p.Must(len(m.garbage) == 0, "not garbage: %v", m.garbage)
	h.p.Equal(moved, m.moved, "replaced extents that are garbage")
	m.moved = nil
	for name := range m.blobs { // dropping garbage must not drop live extents
		h.get(ctx, s, name)
	}
}
