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
	p.Play(func(t *rapid.T, round int) error {
		h := &history{p: p, handles: handles, model: newModel(fmt.Sprint("account", round))}
		for range rapid.IntRange(10, 60).Draw(t, "steps") {
			if err := errors.Join(h.step(t), h.usage()); err != nil {
				return err
			}
		}
		return errors.Join(h.settle(), h.accounts(), h.leave(), h.accounts())
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

// modelCharge is what garbage counts to its owner.
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

func (m *model) replace(b metastore.Blob) metastore.Blob {
	last := m.deleted[b.Name]
	if old, ok := m.blobs[b.Name]; ok {
		m.discard(old.Content, old.Owner, old.Size+1024)
		last = old.Modified
	}
	b.SharedSecond = last.Truncate(time.Second).Equal(b.Modified.Truncate(time.Second))
	m.blobs[b.Name] = b
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

func (h *history) step(t *rapid.T) error {
	s := h.handles[rapid.IntRange(0, len(h.handles)-1).Draw(t, "handle")]
	name := rapid.SampledFrom(modelNames).Draw(t, "name")
	id := fmt.Sprint(h.model.account, "-", rapid.IntRange(0, 2).Draw(t, "id"))
	owner := rapid.SampledFrom(h.owners()).Draw(t, "owner")
	ctx := h.p.Ctx
	// The first ones are drawn more often.
	switch verb := rapid.SampledFrom([]string{
		"begin", "part", "complete", "commit", "advance", "part", "purge", "churn", "abort", "delete", "create",
		"commit", "get", "list", "session", "use", "use", "use once", "reopen",
	}).Draw(t, "verb"); verb {
	case "commit", "create":
		expiring := rapid.IntRange(0, 3).Draw(t, "expiring") == 0
		return h.commit(ctx, s, name, owner, verb == "create", expiring)
	case "delete":
		return h.remove(ctx, s, name)
	case "get":
		return h.get(ctx, s, name)
	case "list":
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		delimiter := rapid.SampledFrom([]string{"", "/", "n"}).Draw(t, "delimiter")
		return errors.Join(h.accounts(), h.list(ctx, s, metastore.ListQuery{Account: h.model.account, Delimiter: delimiter, Limit: limit, Metadata: rapid.Bool().Draw(t, "metadata")}))
	case "begin":
		return h.Begin(ctx, s, id, name, owner)
	case "part":
		return h.part(ctx, s, id, rapid.IntRange(0, 2).Draw(t, "part"))
	case "complete":
		return h.Complete(ctx, s, id, rapid.IntRange(0, 4).Draw(t, "stale") == 4, rapid.Bool().Draw(t, "create only"))
	case "abort":
		return h.abort(ctx, s, id)
	case "session":
		return h.Session(ctx, s, id, rapid.Int64Range(0, 3).Draw(t, "chunksets"))
	case "use":
		return h.use(ctx, s, id, "")
	case "use once":
		return h.use(ctx, s, id, rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key"))
	case "churn":
		return h.churn(ctx, s, owner)
	case "purge":
		return h.Purge(ctx, s, rapid.SampledFrom([]int{2, 10, 100}).Draw(t, "limit"))
	case "reopen":
		return h.Reopen()
	default:
		h.p.Clock.Advance(rapid.SampledFrom([]time.Duration{time.Microsecond, time.Minute, time.Hour, 25 * time.Hour, 8 * 24 * time.Hour}).Draw(t, "time"))
		return nil
	}
}

func (h *history) commit(ctx context.Context, s whole.Database, name, owner string, create, expiring bool) error {
	m, now := h.model, h.p.Clock.Now()
	b := metastore.Blob{Account: m.account, Name: name, Content: h.p.Content(), Size: 4 + int64(h.made), CRC64: uint64(h.made), Owner: owner, Metadata: h.metadata()}
	h.made++
	if expiring {
		b.Expires = now.Add(time.Hour)
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
	return dbtest.Agree("commit", got, b, err, wantErr)
}

// metadata returns the next blob's or upload's metadata: every other one has none.
func (h *history) metadata() string { return strings.Repeat("m", h.made%2*h.made) }

func (h *history) remove(ctx context.Context, s whole.Database, name string) error {
	old, had := h.model.blobs[name]
	id, got, err := s.DeleteBlob(ctx, h.model.account, name, nil)
	if had {
		h.model.discard(old.Content, old.Owner, old.Size+1024)
		h.model.deleted[name] = old.Modified
		delete(h.model.blobs, name)
	}
	return dbtest.Agree("delete", fmt.Sprint(id, got), fmt.Sprint(old.Content, had), err, nil)
}

func (h *history) get(ctx context.Context, s whole.Database, name string) error {
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
	if err := dbtest.Agree("blob", got, want, err, wantErr); err != nil || wantErr != nil {
		return err
	}
	extents, err := s.Extents(ctx, got.Content, metastore.Position{}, 100)
	return dbtest.Agree("extents", extents, m.extents[got.Content], err, nil)
}

func (h *history) list(ctx context.Context, s whole.Database, q metastore.ListQuery) error {
	var names []string
	for n := range h.model.blobs {
		if h.model.current(n, h.p.Clock.Now()) != nil {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for {
		got, err := s.ListBlobs(ctx, q)
		if err != nil {
			return err
		}
		want := modelPage(names, q)
		var listedNames []string
		for _, b := range got.Blobs {
			listedNames = append(listedNames, b.Name)
			listed := h.model.blobs[b.Name]
			if !q.Metadata {
				listed.Metadata = ""
			}
			if !dbtest.Same(b, listed) {
				return fmt.Errorf("listed %+v, want %+v", b, listed)
			}
		}
		if !slices.Equal(listedNames, want.names) || !slices.Equal(got.Prefixes, want.groups) || got.Next != want.next {
			return fmt.Errorf("list %+v: got %q %q %q, want %q", q, listedNames, got.Prefixes, got.Next, want)
		}
		if q.After = got.Next; q.After == "" {
			return nil
		}
	}
}

func (h *history) Begin(ctx context.Context, s whole.Database, id, name, owner string) error {
	if _, ok := h.model.uploads[id]; ok {
		return nil
	}
	now := h.p.Clock.Now()
	u := metastore.Upload{ID: id, Account: h.model.account, Name: name, Content: h.p.Content(), PartSize: 10, Owner: owner, Metadata: h.metadata()}
	got, err := s.BeginUpload(ctx, u)
	u.State, u.Created, u.Touched, u.Revision = metastore.UploadOpen, now, now, got.Revision
	h.model.uploads[id] = &modelUpload{Upload: u, parts: map[int]metastore.Extent{}}
	return dbtest.Agree("begin", got, u, err, nil)
}

// Upload returns the model's upload, or the error that every method returns.
func (h *history) Upload(id string) (*modelUpload, error) {
	u, ok := h.model.uploads[id]
	if !ok || (!u.Ended.IsZero() && !h.p.Clock.Now().Before(u.Ended.Add(metastore.UploadRetention))) {
		return nil, database.ErrNotFound
	}
	return u, nil
}

func (h *history) part(ctx context.Context, s whole.Database, id string, index int) error {
	u, wantErr := h.Upload(id)
	if wantErr == nil {
		wantErr = map[metastore.UploadState]error{
			metastore.UploadAborted: metastore.ErrAborted, metastore.UploadCommitted: metastore.ErrCommitted,
		}[u.State]
	}
	h.made++
	e := h.p.Extent(index, 0, int64(h.made))
	err := s.PutPart(ctx, id, metastore.Part{Index: index, Size: e.Size}, []metastore.Extent{e})
	if derr := dbtest.Agree("part", nil, nil, err, wantErr); derr != nil || wantErr != nil {
		return derr
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
	if err == nil && got.Revision <= u.Revision {
		return fmt.Errorf("revision went from %d to %d", u.Revision, got.Revision)
	}
	u.Revision = got.Revision
	return dbtest.Agree("upload", got, u.Upload, err, nil)
}

func (h *history) Complete(ctx context.Context, s whole.Database, id string, stale, create bool) error {
	u, wantErr := h.Upload(id)
	if wantErr != nil {
		_, err := s.CompleteUpload(ctx, id, 0, 0, 0, nil)
		return dbtest.Agree("complete", nil, nil, err, wantErr)
	}
	revision, now := u.Revision, h.p.Clock.Now()
	if stale {
		revision--
	}
	var precondition metastore.Precondition
	if create {
		precondition = createOnly
	}
	got, err := s.CompleteUpload(ctx, id, revision, u.Bytes, 5, precondition)
	switch {
	case u.State == metastore.UploadCommitted:
		return dbtest.Agree("repeated complete", got, u.Upload, err, nil)
	case u.State == metastore.UploadAborted:
		return dbtest.Agree("complete", nil, nil, err, metastore.ErrAborted)
	case stale:
		return dbtest.Agree("complete", nil, nil, err, metastore.ErrRevisionMismatch)
	}
	if wantErr := createOnly(h.model.current(u.Name, now)); create && wantErr != nil {
		return dbtest.Agree("complete", nil, nil, err, wantErr)
	}
	u.State, u.Ended, u.Modified, u.Size, u.CRC64 = metastore.UploadCommitted, now, now, u.Bytes, 5
	h.model.replace(metastore.Blob{
		Account: u.Account, Name: u.Name, Content: u.Content, Size: u.Bytes, CRC64: 5, PartSize: u.PartSize, Owner: u.Owner, Metadata: u.Metadata, Modified: now,
	})
	var extents []metastore.Extent
	for i := range 3 {
		if e, ok := u.parts[i]; ok {
			extents = append(extents, stored(e)...)
		}
	}
	h.model.extents[u.Content] = extents
	u.end()
	return dbtest.Agree("complete", got, u.Upload, err, nil)
}

func (h *history) abort(ctx context.Context, s whole.Database, id string) error {
	u, wantErr := h.Upload(id)
	if wantErr == nil && u.State == metastore.UploadCommitted {
		wantErr = metastore.ErrCommitted
	}
	got, err := s.AbortUpload(ctx, id)
	if wantErr != nil {
		return dbtest.Agree("abort", nil, nil, err, wantErr)
	}
	if u.State == metastore.UploadOpen {
		h.model.abort(u, h.p.Clock.Now())
	}
	return dbtest.Agree("abort", got, u.Content, err, nil)
}

// abort ends an upload. Its parts become garbage.
func (m *model) abort(u *modelUpload, now time.Time) {
	m.discard(u.Content, u.Owner, u.Bytes+1024*max(1, int64(len(u.parts))))
	u.State, u.Ended = metastore.UploadAborted, now
	u.end()
}

// end removes what an ended upload does not retain.
func (u *modelUpload) end() {
	u.Parts, u.ContentType, u.Metadata, u.parts = 0, "", "", nil
}

func (h *history) Session(ctx context.Context, s whole.Database, id string, left int64) error {
	now := h.p.Clock.Now()
	want := ledger.Session{ID: id, Total: left, Left: left, Created: now, Expires: now.Add(2 * time.Hour)}
	var wantErr error
	if _, ok := h.model.sessions[id]; ok {
		wantErr = database.ErrExists
	} else {
		h.model.sessions[id] = want
	}
	got, err := s.CreateSession(ctx, want, nil)
	return dbtest.Agree("create session", got, want, err, wantErr)
}

func (h *history) use(ctx context.Context, s whole.Database, id, key string) error {
	m, now := h.model, h.p.Clock.Now()
	var once *ledger.Idempotency
	if key != "" {
		once = dbtest.Idem(id, key)
		once.Owner = h.owners()[int(key[0])%2] // k has an owner, l has none
	}
	got, err := s.UseSession(ctx, id, 1, once)
	if o, ok := m.once[id+key]; ok && key != "" && now.Before(o.at.Add(ledger.IdempotencyRetention)) {
		return dbtest.Agree("use replayed", got, o.outcome, err, nil)
	}
	want, ok := m.sessions[id]
	switch {
	case !ok || !now.Before(want.Expires.Add(ledger.SessionRetention)):
		return dbtest.Agree("use", nil, nil, err, database.ErrNotFound)
	case !now.Before(want.Expires):
		return dbtest.Agree("use", nil, nil, err, database.ErrExpired)
	case want.Left == 0:
		return dbtest.Agree("use", nil, nil, err, ledger.ErrExhausted)
	}
	want.Left--
	want.Used++
	m.sessions[id] = want
	if key != "" {
		m.once[id+key] = modelOnce{outcome: want, at: now, owner: once.Owner}
	}
	return dbtest.Agree("use", got, want, err, nil)
}

// settle compares the garbage with the model's, and drops it.
func (h *history) settle() error {
	s, ctx, m := h.handles[0], h.p.Ctx, h.model
	garbage, err := s.GarbageContents(ctx, 0, metastore.GarbageContent{}, 10_000)
	if err != nil {
		return err
	}
	var moved []string
	for _, g := range garbage {
		id := g.Content
		extents, err := s.Extents(ctx, id, metastore.Position{}, 100)
		if err != nil {
			return err
		}
		if !m.garbage[id] { // created by the store for the replaced parts
			for _, e := range extents {
				moved = append(moved, e.Object)
				delete(m.charges, e.Object)
			}
		}
		delete(m.garbage, id)
		delete(m.charges, id.String())
		if err := errors.Join(s.DropExtents(ctx, id, positions(extents)), s.DropContent(ctx, id)); err != nil {
			return err
		}
	}
	slices.Sort(moved)
	slices.Sort(m.moved)
	if len(m.garbage) > 0 || !slices.Equal(moved, m.moved) {
		return fmt.Errorf("not garbage: %v; replaced extents that are garbage: %v, want %v", m.garbage, moved, m.moved)
	}
	m.moved = nil
	for name := range m.blobs { // dropping garbage must not drop live extents
		if err := h.get(ctx, s, name); err != nil {
			return err
		}
	}
	return nil
}
