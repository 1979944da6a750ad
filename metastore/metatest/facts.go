package metatest

import (
	"errors"
	"fmt"
	"time"

	"sluice/metastore"
)

func factChecks() []Check {
	return []Check{
		check("facts/set", factSet),
		check("facts/racing", factRacing),
		check("facts/replace", factReplace),
		check("facts/racing-replaces", factRacingReplaces),
		check("facts/empty", factEmpty),
	}
}

func factSet(p *probe) {
	_, err := p.store.Property(p.ctx, "fact")
	p.is(err, metastore.ErrNotFound, "fact that was not set")
	p.ok(p.store.SetProperty(p.ctx, "fact", "val\x00ue"), "set")
	p.ok(p.store.SetProperty(p.ctx, "none", ""), "set to nothing")
	p.is(p.store.SetProperty(p.ctx, "fact", "other"), metastore.ErrExists, "second set")
	p.is(p.store.SetProperty(p.ctx, "none", "other"), metastore.ErrExists, "second set")
	p.reopen()
	for name, want := range map[string]string{"fact": "val\x00ue", "none": ""} {
		got, err := p.store.Property(p.ctx, name)
		p.ok(err, "fact")
		p.equal(got, want, "fact")
	}
}

func factRacing(p *probe) {
	handles := []metastore.Store{p.store, p.open()}
	errs := race(8, func(i int) error { return handles[i%2].SetProperty(p.ctx, "fact", fmt.Sprint(i)) })
	got, err := p.store.Property(p.ctx, "fact")
	p.ok(err, "fact")
	for i, err := range errs {
		if got == fmt.Sprint(i) {
			p.ok(err, "set of the fact that stayed")
		} else {
			p.is(err, metastore.ErrExists, "set of the fact that lost")
		}
	}
	p.must(errors.Join(errs...) != nil, "everybody set the fact")
}

func factReplace(p *probe) {
	p.is(p.store.ReplaceProperty(p.ctx, "fact", "", "new"), metastore.ErrNotFound, "replacing a fact that was not set")
	_, err := p.store.Property(p.ctx, "fact")
	p.is(err, metastore.ErrNotFound, "fact that was not replaced")
	p.ok(p.store.SetProperty(p.ctx, "fact", "old"), "set")
	p.ok(p.store.SetProperty(p.ctx, "other", "old"), "set")
	p.is(p.store.ReplaceProperty(p.ctx, "fact", "older", "new"), metastore.ErrNotFound, "replacing another value")
	p.is(p.store.ReplaceProperty(p.ctx, "fact", "", "new"), metastore.ErrNotFound, "replacing another value")
	p.ok(p.store.ReplaceProperty(p.ctx, "fact", "old", "new"), "replace")
	p.ok(p.store.ReplaceProperty(p.ctx, "fact", "new", "new"), "replacing a value with itself")
	p.is(p.store.ReplaceProperty(p.ctx, "fact", "old", "newer"), metastore.ErrNotFound, "replacing what was replaced")
	p.is(p.store.SetProperty(p.ctx, "fact", "newer"), metastore.ErrExists, "set of a fact that was replaced")
	p.reopen()
	for name, want := range map[string]string{"fact": "new", "other": "old"} {
		got, err := p.store.Property(p.ctx, name)
		p.ok(err, "fact")
		p.equal(got, want, "fact")
	}
}

// factRacingReplaces: each round one of many that know the value replaces it.
func factRacingReplaces(p *probe) {
	handles := []metastore.Store{p.store, p.open()}
	value := "first"
	p.ok(p.store.SetProperty(p.ctx, "fact", value), "set")
	for round := range 5 {
		name := func(i int) string { return fmt.Sprint(round, "-", i) }
		errs := race(8, func(i int) error { return handles[i%2].ReplaceProperty(p.ctx, "fact", value, name(i)) })
		got, err := p.store.Property(p.ctx, "fact")
		p.ok(err, "fact")
		for i, err := range errs {
			if got == name(i) {
				p.ok(err, "replace that stayed")
			} else {
				p.is(err, metastore.ErrNotFound, "replace that lost")
			}
		}
		p.must(got != value, "nobody replaced the fact")
		value = got
	}
}

func factEmpty(p *probe) {
	isEmpty := func(want bool, what string) {
		got, err := p.store.Empty(p.ctx)
		p.ok(err, "empty")
		p.must(got == want, "empty is %v with %s", got, what)
	}
	isEmpty(true, "nothing")
	p.ok(p.store.SetProperty(p.ctx, "fact", "value"), "set")
	isEmpty(true, "a fact alone")
	p.newKey("key")
	isEmpty(true, "a fact and a key")
	b, _ := p.put("a", "name")
	isEmpty(false, "a blob")
	_, _, err := p.store.DeleteBlob(p.ctx, "a", "name", nil)
	p.ok(err, "delete")
	isEmpty(false, "garbage")
	p.ok(p.store.DropExtents(p.ctx, b.Content, []metastore.Position{{}}), "drop extents")
	p.ok(p.store.DropContent(p.ctx, b.Content), "drop content")
	isEmpty(true, "nothing")
	p.begin("upload", "a", "name")
	isEmpty(false, "an upload")
	id, err := p.store.AbortUpload(p.ctx, "upload")
	p.ok(err, "abort")
	p.clock.Advance(metastore.UploadRetention)
	p.ok(p.store.DropContent(p.ctx, id), "drop content")
	p.purge()
	isEmpty(true, "nothing")
	p.session("session", 0)
	isEmpty(false, "a session")
	p.clock.Advance(time.Hour + metastore.SessionRetention)
	p.purge()
	isEmpty(true, "nothing")
	_, err = p.store.OpenChannel(p.ctx, metastore.Channel{ID: "c"}, nil)
	p.ok(err, "open channel")
	isEmpty(false, "a channel")
}
