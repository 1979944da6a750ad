package folder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/client"
	"sluice/client/folder/tree"
)

// Sync adds what makes a folder or prefix like another: see the function Sync. It lists both sides,
// and reports what is skipped. With remove, Run deletes what the source does not have. A batch has
// at most one Sync, and nothing beside it.
func (b *Batch) Sync(ctx context.Context, from, to End, remove, force bool) error {
	b.o.ContentOnly = true
	b.mirrored = &mirrored{force: force}
	fromDir, up := from.(Dir)
	toDir, down := to.(Dir)
	source, isSource := from.(Prefix)
	target, isTarget := to.(Prefix)
	var deletions []job
	var err error
	switch {
	case up && isTarget:
		deletions, err = b.syncUp(ctx, fromDir, target)
	case isSource && down:
		deletions, err = b.syncDown(ctx, source, toDir)
	case isSource && isTarget:
		deletions, err = b.syncAcross(ctx, source, target)
	default:
		err = fmt.Errorf("client/folder: %w: no end is a Prefix", client.ErrInvalid)
	}
	if err == nil && remove {
		b.deletions = deletions
	}
	return err
}

// syncUp adds a folder's files, and returns the deletions of blobs without a file.
func (b *Batch) syncUp(ctx context.Context, from Dir, to Prefix) ([]job, error) {
	files, skipped, err := listDir(from)
	if err := b.tolerate(err); err != nil {
		return nil, err
	}
	stored, err := list(ctx, to)
	if err != nil {
		return nil, err
	}
	b.addFiles(from, files, skipped, to, stored)
	b.mirrored.empty = len(files) == 0
	for _, f := range files {
		delete(stored, f.Name)
	}
	var deletions []job
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if !isSkipped(name, skipped) {
			deletions = append(deletions, deletion(to.item(name), false))
		}
	}
	return deletions, nil
}

// tolerate keeps a *ListError for the end, and returns any other error.
func (b *Batch) tolerate(err error) error {
	if e, incomplete := errors.AsType[*ListError](err); incomplete {
		b.incomplete = e
		return nil
	}
	return err
}

// isSkipped reports whether a name was skipped, or is below one. It is not known whether the source
// has it.
func isSkipped(name string, skipped []tree.Skipped) bool {
	return slices.ContainsFunc(skipped, func(s tree.Skipped) bool { return name == s.Name || strings.HasPrefix(name, s.Name+"/") })
}

// syncDown adds the blobs below a prefix, and returns the removals of files without a blob.
func (b *Batch) syncDown(ctx context.Context, from Prefix, to Dir) ([]job, error) {
	t, err := b.open(string(to), true)
	if err != nil {
		return nil, err
	}
	if _, err := b.addBlobs(ctx, from, t, ""); err != nil {
		return nil, err
	}
	b.mirrored.empty = len(b.transfers) == 0
	files, _, err := listDir(to)
	if err := b.tolerate(err); err != nil {
		return nil, err
	}
	var removals []job
	for _, f := range files {
		if !t.names.Has(f.Name) {
			removals = append(removals, removal(t.root, f.Name))
		}
	}
	return removals, nil
}

// syncAcross adds the blobs below a prefix, and returns the deletions of blobs that only the other
// has.
func (b *Batch) syncAcross(ctx context.Context, from, to Prefix) ([]job, error) {
	source, err := list(ctx, from)
	if err != nil {
		return nil, err
	}
	stored, err := list(ctx, to)
	if err != nil {
		return nil, err
	}
	b.addCopies(ctx, from, to, source, stored)
	b.mirrored.empty = len(source) == 0
	var deletions []job
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if _, exists := source[name]; !exists {
			deletions = append(deletions, deletion(to.item(name), false))
		}
	}
	return deletions, nil
}

// removal returns the job that removes a local file.
func removal(root *os.Root, name string) job {
	return job{source: localItem(root.Name(), name), deletes: true, run: func(context.Context, func(done, total int64)) (outcome, error) {
		return outcome{}, tree.Remove(root, filepath.FromSlash(name))
	}}
}
