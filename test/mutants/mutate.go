package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"sluice/test/mutants/switches"
)

// quickPackages are the packages that are mutated if none are named: their tests need neither a
// server nor a built binary.
var quickPackages = []string{
	"session", "micropay", "paychan", "access", "exchange/headers", "httpapi/internal/router",
	"exchange/transfer", "bytestore/localfs", "bytestore/cached", "blob",
}

const (
	slower       = 10      // how many times as long as without the fault or mutation tests may take
	addressSpace = 8 << 20 // that tests may have, in KiB: a mutation may allocate memory in a loop
)

// mutator runs the mutations of packages.
type mutator struct {
	root    string
	workers int           // how many processes run at a time
	spare   time.Duration // that tests may take in addition to a multiple of the time that they take without a mutation
	out     io.Writer
}

// mutateAll runs the mutations of packages, given as folders below the root. It prints those that
// timed out and those that no test covers, and a table. It returns an error if a mutation survives
// that is not listed, or a listed one does not.
func (m mutator) mutateAll(ctx context.Context, dirs []string, known map[survivor]string) error {
	var errs []error
	var rows strings.Builder
	for _, dir := range dirs {
		dir = path.Clean(filepath.ToSlash(dir))
		mutations, verdicts, err := m.mutate(ctx, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		for id, v := range verdicts {
			if v != timedOut && v != notCovered {
				continue
			}
			if _, err := fmt.Fprintf(m.out, "%s: %s\n", v, mutations[id]); err != nil {
				return err
			}
		}
		t, err := judge(dir, mutations, verdicts, known)
		errs = append(errs, err)
		fmt.Fprintf(&rows, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", dir, t.mutations, t.detected, t.timedOut, t.listed, t.survived, t.notCovered)
	}
	table := tabwriter.NewWriter(m.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, err := fmt.Fprint(table, "package\tmutations\tdetected\ttimed out\tlisted\tsurvive\tnot covered\t\n", rows.String())
	return errors.Join(append(errs, err, table.Flush())...)
}

// mutate builds a package's tests with all its mutations in it, runs each mutation with the tests
// that can detect it, and returns the mutations in source order with the verdict on each.
func (m mutator) mutate(ctx context.Context, dir string) (mutations []mutation, verdicts []verdict, err error) {
	p, err := instrument(ctx, m.root, dir)
	if err != nil {
		return nil, nil, err
	}
	temp, err := tempDir("")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	b := binary{name: filepath.Join(temp, "mutants.test"), dir: filepath.Join(m.root, dir), temp: temp, memory: addressSpace, spare: m.spare}
	overlay, err := writeOverlay(temp, p.files)
	if err != nil {
		return nil, nil, err
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay="+overlay, "-o", b.name, "./"+dir)
	build.Dir = m.root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("%w\n%s", err, out)
	}
	tests, err := b.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := inParallel(m.workers, len(tests), func(i int) error { return b.record(ctx, &tests[i]) }); err != nil {
		return nil, nil, err
	}
	verdicts = make([]verdict, len(p.mutations))
	err = inParallel(m.workers, len(p.mutations), func(id int) (err error) {
		verdicts[id], err = b.judge(ctx, id, tests)
		return err
	})
	return p.mutations, verdicts, err
}

// inParallel calls f for 0 to n-1, by so many workers, until one call returns an error.
func inParallel(workers, n int, f func(int) error) error {
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		next  int
		errs  []error
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next <= n && len(errs) == 0
	}
	for range workers {
		group.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if err := f(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// test is a top-level test, fuzz target or example.
type test struct {
	name  string
	took  time.Duration
	lines map[int]int // in the record, by the mutation's number
}

func (b binary) list(ctx context.Context) ([]test, error) {
	out, err := b.exec(ctx, 0, nil, "-test.list=^(Test|Fuzz|Example)")
	if err != nil {
		return nil, fmt.Errorf("listing the tests: %w\n%s", err, out)
	}
	var tests []test
	for name := range strings.FieldsSeq(string(out)) {
		tests = append(tests, test{name: name})
	}
	return tests, nil
}

// record runs a test by itself, without a mutation, and records how long it takes, which mutations
// it evaluates and which of them have an effect.
func (b binary) record(ctx context.Context, t *test) error {
	name := filepath.Join(b.temp, t.name+".record")
	began := time.Now()
	out, err := b.exec(ctx, 0, []string{switches.Record + "=" + name}, "-test.run=^"+t.name+"$")
	if err != nil {
		return fmt.Errorf("%s fails without a mutation: %w\n%s", t.name, err, out)
	}
	t.took, t.lines = time.Since(began), map[int]int{}
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for line := range strings.FieldsSeq(string(text)) {
		id, err := strconv.Atoi(line)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		t.lines[id]++
	}
	return nil
}

// judge runs the tests on which a mutation has an effect until one fails. The quickest are run
// first, in processes that run twice as many tests as the one before, since a process takes longer
// to start than most tests take.
func (b binary) judge(ctx context.Context, id int, tests []test) (verdict, error) {
	var able []test
	covered := false
	for _, t := range tests {
		covered = covered || t.lines[id] > 0
		if t.lines[id] > 1 {
			able = append(able, t)
		}
	}
	if !covered {
		return notCovered, nil
	}
	slices.SortStableFunc(able, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	for n := 1; len(able) > 0; n *= 2 {
		batch := able[:min(n, len(able))]
		able = able[len(batch):]
		if v, err := b.runBatch(ctx, id, batch); err != nil || v != survived {
			return v, err
		}
	}
	return survived, nil
}

func (b binary) runBatch(ctx context.Context, id int, tests []test) (verdict, error) {
	var names []string
	limit := b.spare
	for _, t := range tests {
		names = append(names, t.name)
		limit += slower * t.took
	}
	out, err := b.exec(ctx, limit, []string{switches.Active + "=" + strconv.Itoa(id)}, "-test.failfast", "-test.run=^("+strings.Join(names, "|")+")$")
	return verdictOf(ctx, out, err)
}

// writeOverlay writes files and an overlay with which the go command uses them instead of the
// tree's, and returns the overlay's name.
func writeOverlay(temp string, files map[string][]byte) (string, error) {
	replace := map[string]string{}
	for i, name := range slices.Sorted(maps.Keys(files)) {
		replace[name] = filepath.Join(temp, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(replace[name], files[name], 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(temp, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}
