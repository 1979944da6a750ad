package metatest

import (
	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

var aliasChecks = []dbtest.Check{
	check("aliases/set", aliasSet),
	check("aliases/names-with-blobs", aliasOfBlobs),
	check("aliases/version", aliasVersion),
}

func aliasSet(p *probe) {
	long := metastore.Alias{Name: "b\x00\xff", Account: "0x\x00\xff"}
	for _, a := range []metastore.Alias{long, {Name: "a", Account: "x"}, long, {Name: "c", Account: "x"}} {
		p.OK(p.Store.SetAlias(p.Ctx, a, nil), "alias %q", a.Name)
	}
	p.Is(p.Store.SetAlias(p.Ctx, metastore.Alias{Name: "a", Account: "y"}, nil), database.ErrExists, "another account's alias")
	p.Reopen()
	p.aliases(metastore.Alias{Name: "a", Account: "x"}, long, metastore.Alias{Name: "c", Account: "x"})
	p.OK(p.Store.DeleteAlias(p.Ctx, "a", nil), "delete")
	p.Is(p.Store.DeleteAlias(p.Ctx, "a", nil), database.ErrNotFound, "an alias that was deleted")
	p.OK(p.Store.SetAlias(p.Ctx, metastore.Alias{Name: "a", Account: "y"}, nil), "an alias for another account, after it was deleted")
	p.aliases(metastore.Alias{Name: "a", Account: "y"}, long, metastore.Alias{Name: "c", Account: "x"})
}

func (p *probe) aliases(want ...metastore.Alias) {
	got, err := p.Store.ListAliases(p.Ctx)
	p.OK(err, "list")
	p.Equal(got, want, "aliases")
}

// aliasOfBlobs: an account's own name cannot be another's alias while the account has blobs.
func aliasOfBlobs(p *probe) {
	p.Put("own", "name")
	a := metastore.Alias{Name: "own", Account: "other"}
	p.Is(p.Store.SetAlias(p.Ctx, a, nil), metastore.ErrNameHasBlobs, "an alias of an account with blobs")
	p.Put(metastore.MarkersOf("marked"), "dir/")
	p.Is(p.Store.SetAlias(p.Ctx, metastore.Alias{Name: "marked", Account: "other"}, nil), metastore.ErrNameHasBlobs, "an alias of an account with markers")
	_, _, err := dbtest.Remove(p.Ctx, p.Store, "own", "name", nil)
	p.OK(err, "delete")
	p.OK(p.Store.SetAlias(p.Ctx, a, nil), "an alias of an account without blobs")
	p.Put("own", "name")
	p.OK(p.Store.SetAlias(p.Ctx, a, nil), "the same alias, once the account has blobs")
}

func aliasVersion(p *probe) {
	other := p.Open()
	last := int64(-1)
	changed := func(want bool, by string) {
		got, err := other.AliasesVersion(p.Ctx)
		p.OK(err, "version")
		p.Must((got != last) == want, "the version is %d after %s, and was %d", got, by, last)
		last = got
	}
	changed(true, "the start")
	changed(false, "nothing")
	p.OK(p.Store.SetAlias(p.Ctx, metastore.Alias{Name: "a", Account: "x"}, nil), "set")
	changed(true, "a new alias")
	p.OK(p.Store.SetAlias(p.Ctx, metastore.Alias{Name: "a", Account: "x"}, nil), "set")
	p.Is(p.Store.DeleteAlias(p.Ctx, "b", nil), database.ErrNotFound, "an unknown alias")
	changed(false, "a call without effect")
	p.OK(p.Store.DeleteAlias(p.Ctx, "a", nil), "delete")
	changed(true, "a deletion")
}
