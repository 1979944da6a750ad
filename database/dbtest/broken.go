package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"sluice/internal/testclock"
)

// Mutant is a store that is broken on purpose, by which a suite is tested.
type Mutant struct {
	Name string
	// Break breaks a handle of the SQLite database at path.
	Break func(h Handle, path string) Handle
	// Caught names the checks that must fail.
	Caught []string
}

// Catch runs single checks on broken stores. The database's own tests run all checks on the correct
// one.
func Catch(t *testing.T, checks []Check, open OpenFunc, mutants []Mutant) {
	byName := map[string]Check{}
	for _, c := range checks {
		byName[c.Name] = c
	}
	newPath := Copies(t, open)
	for _, m := range mutants {
		for _, name := range m.Caught {
			t.Run(m.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				check, ok := byName[name]
				if !ok {
					t.Fatalf("there is no check %s", name)
				}
				path, clock := newPath(t), testclock.New()
				h := NewHarness(clock, func() (Handle, error) {
					correct, err := open(path, clock.Now)
					if err != nil {
						return nil, err
					}
					return m.Break(correct, path), nil
				})
				caught := check.Run(t.Context(), h)
				if err := h.Close(); err != nil {
					t.Fatal(err)
				}
				if caught == nil {
					t.Fatal("the broken store passed")
				}
				t.Logf("detected: %v", caught)
			})
		}
	}
}

// Query changes an SQLite database without its store.
func Query(ctx context.Context, path, text string, args ...any) error {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, text, args...)
	return errors.Join(err, db.Close())
}

// AroundPurge returns a handle that changes the SQLite database at path before and after each
// purge.
func AroundPurge(h Handle, path, before, after string) Handle {
	return aroundPurge{h, path, before, after}
}

type aroundPurge struct {
	Handle
	path, before, after string
}

func (s aroundPurge) Purge(ctx context.Context, limit int) (int, error) {
	if err := Query(ctx, s.path, s.before); err != nil {
		return 0, err
	}
	n, err := s.Handle.Purge(ctx, limit)
	return n, errors.Join(err, Query(ctx, s.path, s.after))
}
