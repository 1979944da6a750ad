package dbtest

import (
	"context"
	"time"

	"sluice/database"
	"sluice/ledger"
	"sluice/metastore"
)

// cancelled calls methods with a context that has ended. They must return its error and have no
// effect.
func cancelled(p *Probe) {
	b, _ := p.Put("a", "name")
	u := p.Begin("upload", "a", "by-parts")
	s := Value(p.Store.CreateSession(p.Ctx, ledger.Session{ID: "session", Total: 5, Left: 5, Expires: p.Clock.Now().Add(time.Hour)}, nil))
	ctx, cancel := context.WithCancel(p.Ctx)
	cancel()
	e := p.Extent(0, 0, 1)
	idem := &database.Idempotency{Scope: "s", Key: "k"}
	from := metastore.BlobName{Account: "a", Name: "name"}
	for name, verb := range map[string]func() error{
		"commit": func() error {
			return Error(p.Store.CommitBlob(ctx, metastore.Blob{Account: "a", Name: "name", Content: p.Content(), Size: 1}, []metastore.Extent{e}, nil))
		},
		"copy": func() error {
			return Error(p.Store.CopyBlob(ctx, metastore.Copy{From: from, To: metastore.Blob{Account: "a", Name: "other"}}))
		},
		"move": func() error {
			return Error(p.Store.MoveBlob(ctx, metastore.Move{From: from, To: metastore.BlobName{Account: "a", Name: "other"}, Once: idem}))
		},
		"delete":   func() error { _, _, err := Remove(ctx, p.Store, "a", "name", nil); return err },
		"blob":     func() error { _, err := p.Store.Blob(ctx, "a", "name"); return err },
		"list":     func() error { return Error(p.Store.ListBlobs(ctx, metastore.ListQuery{Account: "a", Limit: 1})) },
		"begin":    func() error { _, err := p.Store.BeginUpload(ctx, metastore.Upload{ID: "other"}); return err },
		"part":     func() error { return p.Store.PutPart(ctx, "upload", metastore.Part{Size: 1}, []metastore.Extent{e}) },
		"complete": func() error { _, err := p.Store.CompleteUpload(ctx, "upload", u.Revision, 0, 0, nil); return err },
		"abort":    func() error { _, err := p.Store.AbortUpload(ctx, "upload"); return err },
		"create":   func() error { _, err := p.Store.CreateSession(ctx, ledger.Session{ID: "other"}, nil); return err },
		"use":      func() error { _, err := p.Store.UseSession(ctx, "session", 1, nil); return err },
		"use once": func() error { _, err := p.Store.UseSession(ctx, "session", 1, idem); return err },
		"channel":  func() error { _, err := p.Store.OpenChannel(ctx, ledger.Channel{ID: "c"}, nil); return err },
		"purge":    func() error { _, err := p.Store.Purge(ctx, 1); return err },
		"property": func() error { return p.Store.SetProperty(ctx, "property", "value") },
		"time":     func() error { return p.Store.KeepTime(ctx) },
	} {
		p.Is(verb(), context.Canceled, "%s with a context that has ended", name)
	}
	p.Equal(Value(p.Store.Blob(p.Ctx, "a", "name")), b, "blob")
	p.Is(Error(p.Store.Blob(p.Ctx, "a", "other")), database.ErrNotFound, "result of a cancelled copy or move")
	p.Equal(p.Upload("upload"), u, "upload")
	p.Equal(Value(p.Store.Session(p.Ctx, "session")), s, "session")
	for _, id := range []string{"other"} {
		p.Is(Error(p.Store.Session(p.Ctx, id)), database.ErrNotFound, "session of a cancelled create")
		p.Is(Error(p.Store.Upload(p.Ctx, id)), database.ErrNotFound, "upload of a cancelled begin")
	}
	p.Is(Error(p.Store.Channel(p.Ctx, "c")), database.ErrNotFound, "channel of a cancelled open")
	p.Is(Error(p.Store.Property(p.Ctx, "property")), database.ErrNotFound, "property of a cancelled set")
}
