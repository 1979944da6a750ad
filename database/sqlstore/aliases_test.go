package sqlstore

import (
	"fmt"
	"testing"

	"sluice/metastore"
	"sluice/test/testenv"
)

// TestAliasesAreBounded: there are at most as many aliases as nodes keep in memory.
func TestAliasesAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		for first := 0; first < metastore.MaxAliases; first += 1000 {
			rows := ""
			for i := range 1000 {
				rows += fmt.Sprintf(", (CAST('%d' AS BLOB), CAST('x' AS BLOB))", first+i)
			}
			executeBoth(t, s, "INSERT INTO aliases (name, account) VALUES "+rows[2:])
		}
		one := metastore.Alias{Name: "more", Account: "x"}
		testenv.Is(t, s.SetAlias(t.Context(), one, nil), metastore.ErrTooManyAliases, "one alias more")
		testenv.OK(t, s.SetAlias(t.Context(), metastore.Alias{Name: "7", Account: "x"}, nil)) // there is one
		testenv.OK(t, s.DeleteAlias(t.Context(), "7", nil))
		testenv.OK(t, s.SetAlias(t.Context(), one, nil))
		testenv.Equal(t, len(testenv.Must(s.ListAliases(t.Context()))(t)), metastore.MaxAliases, "aliases")
	})
}
