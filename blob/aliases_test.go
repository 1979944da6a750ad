package blob_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/blob"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestAliasesAreFollowed: an alias takes effect while Run runs, without a query for each lookup.
func TestAliasesAreFollowed(t *testing.T) {
	f := newFixture(t, blob.Options{})
	testenv.OK(t, f.meta.SetAlias(t.Context(), metastore.Alias{Name: "first", Account: "0x1"}, nil))
	a := testenv.Must(blob.LoadAliases(t.Context(), f.meta))(t)
	testenv.Equal(t, a.Account("first")+a.Account("second"), "0x1", "the account of an alias at the start")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx, func(err error) { t.Error(err) }) })
	testenv.OK(t, f.meta.SetAlias(t.Context(), metastore.Alias{Name: "second", Account: "0x1"}, nil))
	testenv.OK(t, f.meta.DeleteAlias(t.Context(), "first", nil))
	for deadline := time.Now().Add(time.Minute); a.Account("second") == ""; {
		if time.Now().After(deadline) {
			t.Fatal("a new alias takes no effect")
		}
		time.Sleep(10 * time.Millisecond) // Run looks each second
	}
	testenv.Equal(t, a.Account("first"), "", "the account of an alias that was removed")
	if got := a.Of("0x1"); !slices.Equal(got, []string{"second"}) {
		t.Errorf("the aliases are %q", got)
	}
	stop()
	running.Wait()
}
