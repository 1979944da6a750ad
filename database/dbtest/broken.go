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
// database with other rules, or with another method.
type Mutant struct {
	Name string
	// Schema are statements that break the database's rows, such as CREATE TRIGGER.
	Schema string
	// BeforePurge and AfterPurge are statements that run around each purge.
	BeforePurge, AfterPurge string
	// Break breaks the methods of a handle.
	Break func(Correct) Handle
	// Caught names the checks that must fail.
	Caught []string
}

// On returns the Schema that executes statements after an event, such as "AFTER INSERT ON blobs".
func On(event, statements string) string {
	return fmt.Sprintf("CREATE TRIGGER broken %s BEGIN %s; END", event, statements)
}

// Correct is a handle of a correct store over SQLite.
type Correct struct {
	Handle
	path string
}

// Exec changes the database without its store.
func (c Correct) Exec(ctx context.Context, text string, args ...any) error {
	db, err := sql.Open("sqlite", "file:"+c.path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, text, args...)
	return errors.Join(err, db.Close())
}

// Broken returns the handle as a T, whose methods replace the correct store's.
func Broken[T interface {
	~struct{ Correct }
	Handle
}](c Correct) Handle {
	return T(struct{ Correct }{c})
}

// purging is a handle that executes statements around each purge.
type purging struct {
	Correct
	before, after string
}

func (s purging) Purge(ctx context.Context, limit int) (int, error) {
	if err := s.Exec(ctx, s.before); err != nil {
		return 0, err
	}
	n, err := s.Correct.Purge(ctx, limit)
	return n, errors.Join(err, s.Exec(ctx, s.after))
}

// over returns the broken store over a correct one.
func (m Mutant) over(c Correct) Handle {
	switch {
	case m.Break != nil:
		return m.Break(c)
	case m.BeforePurge+m.AfterPurge != "":
		return purging{c, m.BeforePurge, m.AfterPurge}
	}
	return c
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
				testenv.OK(t, (Correct{path: path}).Exec(t.Context(), m.Schema))
				h := NewHarness(clock, func() (Handle, error) {
					correct, err := open(path, clock.Now)
					if err != nil {
						return nil, err
					}
					return m.over(Correct{correct, path}), nil
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
