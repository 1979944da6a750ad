package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"
)

// plan selects the faults that are planted, and how.
type plan struct {
	root    string
	only    string // a regular expression of their names
	shard   string // K/N for the Kth of N parts; empty: all
	results string // a file; empty: results are only printed
	workers int
	spare   time.Duration // see planter
	limit   time.Duration // see planter
	out     io.Writer
}

// faults returns the plan's faults, those with tests in the same packages one after another.
func (p plan) faults(prints *fingerprints) ([]planted, error) {
	wanted, err := regexp.Compile(p.only)
	if err != nil {
		return nil, err
	}
	listed, err := readFaults(p.root)
	if err != nil {
		return nil, err
	}
	var faults []planted
	for _, f := range listed {
		if !wanted.MatchString(f.name) {
			continue
		}
		hash, err := prints.of(f)
		if err != nil {
			return nil, err
		}
		faults = append(faults, planted{f, hash})
	}
	slices.SortStableFunc(faults, func(a, b planted) int { return slices.Compare(a.packages, b.packages) })
	return part(faults, p.shard)
}

// part returns a part of all faults, such as 2/4 for the second of four.
func part(faults []planted, shard string) ([]planted, error) {
	if shard == "" {
		return faults, nil
	}
	var k, n int
	if _, err := fmt.Sscanf(shard+"\n", "%d/%d\n", &k, &n); err != nil || k < 1 || k > n {
		return nil, fmt.Errorf("the shard %q is not of the form 2/4", shard)
	}
	return faults[len(faults)*(k-1)/n : len(faults)*k/n], nil
}

// plantAll plants the plan's faults. It returns an error if one is not detected and has no reason
// for it, is detected although the list has a reason why no test can, or could not be judged.
func (p plan) plantAll(ctx context.Context) (err error) {
	prints, err := readFingerprints(ctx, p.root)
	if err != nil {
		return err
	}
	faults, err := p.faults(prints)
	if err != nil {
		return err
	}
	j, err := openJournal(p.results, p.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	groups, err := p.pending(faults, j)
	if err != nil {
		return err
	}
	// A worker plants a group's faults, because tests of one package may disturb each other. The
	// longest group begins first.
	slices.SortStableFunc(groups, func(a, b []planted) int { return cmp.Compare(len(b), len(a)) })
	err = inParallel(p.workers, len(groups), func(i int) error { return p.plantGroup(ctx, groups[i], prints, j) })
	if err != nil {
		return err
	}
	return j.summarize(faults)
}

// pending returns the faults that have no fresh result, in groups with the same packages. It prints
// the other faults' results.
func (p plan) pending(faults []planted, j *journal) (groups [][]planted, err error) {
	for _, f := range faults {
		if r, ok := j.fresh(f); ok {
			if _, err := fmt.Fprintf(p.out, "not planted again, since nothing changed: %s\n", r); err != nil {
				return nil, err
			}
			continue
		}
		last := len(groups) - 1
		if last < 0 || !slices.Equal(groups[last][0].packages, f.packages) {
			groups = append(groups, nil)
			last++
		}
		groups[last] = append(groups[last], f)
	}
	return groups, nil
}

// plantGroup plants faults with tests in the same packages.
func (p plan) plantGroup(ctx context.Context, faults []planted, prints *fingerprints, j *journal) (err error) {
	planter := planter{root: p.root, packages: faults[0].packages, spare: p.spare, limit: p.limit}
	defer func() { err = errors.Join(err, planter.close()) }()
	if err := planter.open(ctx); err != nil {
		return err
	}
	for _, f := range faults {
		r, err := planter.plant(ctx, f.fault)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		now, err := prints.readFiles(ctx)
		if err != nil {
			return err
		}
		if hash, err := now.of(f.fault); err != nil || hash != f.hash {
			return errors.Join(fmt.Errorf("the tree was changed while %s was planted: start again to go on", f.name), err)
		}
		r.Fault, r.Hash = f.name, f.hash
		if err := j.add(r); err != nil {
			return err
		}
	}
	return nil
}

// summarize merges results files, prints a table of this tree's results, and returns an error that
// names the faults that were not planted in this tree or are not as the list promises.
func (p plan) summarize(ctx context.Context, files []string) error {
	prints, err := readFingerprints(ctx, p.root)
	if err != nil {
		return err
	}
	faults, err := p.faults(prints)
	if err != nil {
		return err
	}
	merged, err := readJournal(files, p.out)
	if err != nil {
		return err
	}
	return merged.summarize(faults)
}
