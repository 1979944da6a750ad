package metatest

import (
	"errors"
	"fmt"
	"time"

	"sluice/database"
	"sluice/database/whole"
	"sluice/ledger"
	"sluice/metastore"
)

func propertyChecks() []Check {
	return []Check{
		check("properties/set", propertySet),
		check("properties/racing", propertyRacing),
		check("properties/replace", propertyReplace),
		check("properties/racing-replaces", propertyRacingReplaces),
		check("properties/empty", propertyEmpty),
	}
}

func propertySet(p *probe) {
	_, err := p.store.Property(p.ctx, "property")
	p.is(err, database.ErrNotFound, "property that was not set")
	p.ok(p.store.SetProperty(p.ctx, "property", "val\x00ue"), "set")
	p.ok(p.store.SetProperty(p.ctx, "none", ""), "set to an empty value")
	p.is(p.store.SetProperty(p.ctx, "property", "other"), database.ErrExists, "second set")
	p.is(p.store.SetProperty(p.ctx, "none", "other"), database.ErrExists, "second set")
	p.reopen()
	for name, want := range map[string]string{"property": "val\x00ue", "none": ""} {
		got, err := p.store.Property(p.ctx, name)
		p.ok(err, "property")
		p.equal(got, want, "property")
	}
}

func propertyRacing(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	errs := race(8, func(i int) error { return handles[i%2].SetProperty(p.ctx, "property", fmt.Sprint(i)) })
	got, err := p.store.Property(p.ctx, "property")
	p.ok(err, "property")
	for i, err := range errs {
		if got == fmt.Sprint(i) {
			p.ok(err, "set of the property that succeeded")
		} else {
			p.is(err, database.ErrExists, "set of the property that failed")
		}
	}
	p.must(errors.Join(errs...) != nil, "every racing call set the property")
}

func propertyReplace(p *probe) {
	p.is(p.store.ReplaceProperty(p.ctx, "property", "", "new"), database.ErrNotFound, "replacing a property that was not set")
	_, err := p.store.Property(p.ctx, "property")
	p.is(err, database.ErrNotFound, "property that was not replaced")
	p.ok(p.store.SetProperty(p.ctx, "property", "old"), "set")
	p.ok(p.store.SetProperty(p.ctx, "other", "old"), "set")
	p.is(p.store.ReplaceProperty(p.ctx, "property", "older", "new"), database.ErrNotFound, "replacing another value")
	p.is(p.store.ReplaceProperty(p.ctx, "property", "", "new"), database.ErrNotFound, "replacing another value")
	p.ok(p.store.ReplaceProperty(p.ctx, "property", "old", "new"), "replace")
	p.ok(p.store.ReplaceProperty(p.ctx, "property", "new", "new"), "replacing a value with itself")
	p.is(p.store.ReplaceProperty(p.ctx, "property", "old", "newer"), database.ErrNotFound, "replacing the replaced value")
	p.is(p.store.SetProperty(p.ctx, "property", "newer"), database.ErrExists, "set of a property that was replaced")
	p.reopen()
	for name, want := range map[string]string{"property": "new", "other": "old"} {
		got, err := p.store.Property(p.ctx, name)
		p.ok(err, "property")
		p.equal(got, want, "property")
	}
}

// propertyRacingReplaces checks that of many concurrent calls that replace the same value, one
// succeeds.
func propertyRacingReplaces(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	value := "first"
	p.ok(p.store.SetProperty(p.ctx, "property", value), "set")
	for round := range 5 {
		name := func(i int) string { return fmt.Sprint(round, "-", i) }
		errs := race(8, func(i int) error { return handles[i%2].ReplaceProperty(p.ctx, "property", value, name(i)) })
		got, err := p.store.Property(p.ctx, "property")
		p.ok(err, "property")
		for i, err := range errs {
			if got == name(i) {
				p.ok(err, "replace that succeeded")
			} else {
				p.is(err, database.ErrNotFound, "replace that failed")
			}
		}
		p.must(got != value, "no racing call replaced the property")
		value = got
	}
}

func propertyEmpty(p *probe) {
	isEmpty := func(want bool, what string) {
		got, err := p.store.Empty(p.ctx)
		p.ok(err, "empty")
		p.must(got == want, "empty is %v with %s", got, what)
	}
	isEmpty(true, "nothing")
	p.ok(p.store.SetProperty(p.ctx, "property", "value"), "set")
	isEmpty(true, "a property alone")
	p.newKey("key")
	isEmpty(true, "a property and a key")
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
	p.clock.Advance(time.Hour + ledger.SessionRetention)
	p.purge()
	isEmpty(true, "nothing")
	_, err = p.store.OpenChannel(p.ctx, ledger.Channel{ID: "c"}, nil)
	p.ok(err, "open channel")
	isEmpty(false, "a channel")
}
