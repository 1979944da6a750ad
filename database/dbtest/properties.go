package dbtest

import (
	"errors"
	"fmt"
	"time"

	"sluice/database"
	"sluice/database/whole"
	"sluice/ledger"
	"sluice/metastore"
)

var propertyChecks = []Check{
	NewCheck("properties/set", propertySet),
	NewCheck("properties/racing", propertyRacing),
	NewCheck("properties/replace", propertyReplace),
	NewCheck("properties/racing-replaces", propertyRacingReplaces),
	NewCheck("properties/empty", propertyEmpty),
}

func propertySet(p *Probe) {
	p.Is(Error(p.Store.Property(p.Ctx, "property")), database.ErrNotFound, "property that was not set")
	p.OK(p.Store.SetProperty(p.Ctx, "property", "val\x00ue"), "set")
	p.OK(p.Store.SetProperty(p.Ctx, "none", ""), "set to an empty value")
	p.Is(p.Store.SetProperty(p.Ctx, "property", "other"), database.ErrExists, "second set")
	p.Is(p.Store.SetProperty(p.Ctx, "none", "other"), database.ErrExists, "second set")
	p.Reopen()
	for name, want := range map[string]string{"property": "val\x00ue", "none": ""} {
		p.Equal(Value(p.Store.Property(p.Ctx, name)), want, "property")
	}
}

func propertyRacing(p *Probe) {
	handles := []whole.Database{p.Store, p.Open()}
	errs := Race(8, func(i int) error { return handles[i%2].SetProperty(p.Ctx, "property", fmt.Sprint(i)) })
	got := Value(p.Store.Property(p.Ctx, "property"))
	for i, err := range errs {
		if got == fmt.Sprint(i) {
			p.OK(err, "set of the property that succeeded")
		} else {
			p.Is(err, database.ErrExists, "set of the property that failed")
		}
	}
	p.Must(errors.Join(errs...) != nil, "every racing call set the property")
}

func propertyReplace(p *Probe) {
	p.Is(p.Store.ReplaceProperty(p.Ctx, "property", "", "new"), database.ErrNotFound, "replacing a property that was not set")
	p.Is(Error(p.Store.Property(p.Ctx, "property")), database.ErrNotFound, "property that was not replaced")
	p.OK(p.Store.SetProperty(p.Ctx, "property", "old"), "set")
	p.OK(p.Store.SetProperty(p.Ctx, "other", "old"), "set")
	p.Is(p.Store.ReplaceProperty(p.Ctx, "property", "older", "new"), database.ErrNotFound, "replacing another value")
	p.Is(p.Store.ReplaceProperty(p.Ctx, "property", "", "new"), database.ErrNotFound, "replacing another value")
	p.OK(p.Store.ReplaceProperty(p.Ctx, "property", "old", "new"), "replace")
	p.OK(p.Store.ReplaceProperty(p.Ctx, "property", "new", "new"), "replacing a value with itself")
	p.Is(p.Store.ReplaceProperty(p.Ctx, "property", "old", "newer"), database.ErrNotFound, "replacing the replaced value")
	p.Is(p.Store.SetProperty(p.Ctx, "property", "newer"), database.ErrExists, "set of a property that was replaced")
	p.Reopen()
	for name, want := range map[string]string{"property": "new", "other": "old"} {
		p.Equal(Value(p.Store.Property(p.Ctx, name)), want, "property")
	}
}

// propertyRacingReplaces replaces the same value by many concurrent calls. It checks that one
// succeeds.
func propertyRacingReplaces(p *Probe) {
	handles := []whole.Database{p.Store, p.Open()}
	value := "first"
	p.OK(p.Store.SetProperty(p.Ctx, "property", value), "set")
	for round := range 5 {
		name := func(i int) string { return fmt.Sprint(round, "-", i) }
		errs := Race(8, func(i int) error { return handles[i%2].ReplaceProperty(p.Ctx, "property", value, name(i)) })
		got := Value(p.Store.Property(p.Ctx, "property"))
		for i, err := range errs {
			if got == name(i) {
				p.OK(err, "replace that succeeded")
			} else {
				p.Is(err, database.ErrNotFound, "replace that failed")
			}
		}
		p.Must(got != value, "no racing call replaced the property")
		value = got
	}
}

func propertyEmpty(p *Probe) {
	isEmpty := func(want bool, with string) {
		got := Value(p.Store.Empty(p.Ctx))
		p.Must(got == want, "empty is %v with %s", got, with)
	}
	isEmpty(true, "nothing")
	p.OK(p.Store.SetProperty(p.Ctx, "property", "value"), "set")
	isEmpty(true, "a property alone")
	p.NewKey("key")
	isEmpty(true, "a property and a key")
	b, _ := p.Put("a", "name")
	isEmpty(false, "a blob")
	_, _, err := Remove(p.Ctx, p.Store, "a", "name", nil)
	p.OK(err, "delete")
	isEmpty(false, "garbage")
	p.OK(p.Store.DropExtents(p.Ctx, b.Content, []metastore.Position{{}}), "drop extents")
	p.OK(p.Store.DropContent(p.Ctx, b.Content), "drop content")
	isEmpty(true, "nothing")
	p.Begin("upload", "a", "name")
	isEmpty(false, "an upload")
	id := Value(p.Store.AbortUpload(p.Ctx, "upload"))
	p.Clock.Advance(metastore.UploadRetention)
	p.OK(p.Store.DropContent(p.Ctx, id), "drop content")
	p.Purge()
	isEmpty(true, "nothing")
	p.Session("session", 0)
	isEmpty(false, "a session")
	p.Clock.Advance(time.Hour + ledger.SessionRetention)
	p.Purge()
	isEmpty(true, "nothing")
	Value(p.Store.OpenChannel(p.Ctx, ledger.Channel{ID: "c"}, nil))
	isEmpty(false, "a channel")
}
