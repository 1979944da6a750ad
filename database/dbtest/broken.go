package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"sluice/test/testclock"
	"sluice/test/testenv"
)

// Mutant is a store that is broken on purpose, by which a suite is tested: the correct one over a
// database with other rules.
type Mutant struct {
	Name string
	// Schema are statements that break the database's rows, such as CREATE TRIGGER.
	Schema string
	// BeforePurge and AfterPurge are statements that run around each purge.
	BeforePurge, AfterPurge string
	// Caught names the checks that must fail.
	Caught []string
}

// On returns the Schema that executes statements after an event, such as "AFTER INSERT ON blobs".
func On(event, statements string) string {
	return fmt.Sprintf("CREATE TRIGGER broken %s BEGIN %s; END", event, statements)
}

// exec changes a database without its store.
func exec(ctx context.Context, path, text string) error {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, text)
	return errors.Join(err, db.Close())
}

// purging is a handle that executes statements around each purge.
type purging struct {
	Handle
	path   string
	mutant Mutant
}

func (s purging) Purge(ctx context.Context, limit int) (int, error) {
	if err := exec(ctx, s.path, s.mutant.BeforePurge); err != nil {
		return 0, err
	}
	n, err := s.Handle.Purge(ctx, limit)
	return n, errors.Join(err, exec(ctx, s.path, s.mutant.AfterPurge))
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
				testenv.OK(t, exec(t.Context(), path, m.Schema))
				h := NewHarness(clock, func() (Handle, error) {
					correct, err := open(path, clock.Now)
					return purging{correct, path, m}, err
				})
				caught := check.Run(t.Context(), h)
				testenv.OK(t, h.Close())
				if caught == nil {
					t.Fatal("the broken store passed")
				}
				t.Logf("detected: %v", caught)
			})
		}
	}
}
