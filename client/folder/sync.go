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

	"golang.org/x/text/unicode/norm"

	"sluice/client"
	"sluice/client/folder/tree"
)

// Sync adds the jobs that make a folder or prefix like another: names that differ in content are
// copied. It lists both sides, and reports skipped names. One end must be a Prefix, otherwise it
// returns client.ErrInvalid. If a folder cannot be read as a whole, Run copies the readable files,
// deletes nothing, and returns a *ListError. A batch has at most one Sync, and nothing beside it.
//
// With remove, Run deletes names from the target that the source does not have, after everything
// was copied. If the source is empty, or if some of it could not be listed or copied, nothing is
// deleted unless force is set: see NotDeletedError.
//
// With Options.TrackRenames, a content that a prefix has under another name, with the same size and
// ETag, is not transferred: the service copies the blob. With remove it moves, once, a blob that
// would be deleted, after everything else was copied. A moved blob keeps its properties; if it is
// to get new ones, by Options.Put or because its content type follows its name, it is copied with
// them and then deleted. Copies get the properties that they would have otherwise. In a folder, a
// file that would be removed is renamed. If the service or the key cannot do that, or if something
// has changed meanwhile, the content is transferred. Local files are read for this only if
// something in question has their size. Empty contents are transferred.
func (b *Batch) Sync(ctx context.Context, from, to End, remove, force bool) error {
	b.o.ContentOnly = true
	b.mirrored = &mirrored{removes: remove, force: force}
	fromDir, up := from.(Dir)
	toDir, down := to.(Dir)
	source, isSource := from.(Prefix)
	target, isTarget := to.(Prefix)
	switch {
	case up && isTarget:
		return b.syncUp(ctx, fromDir, target)
	case isSource && down:
		return b.syncDown(ctx, source, toDir)
	case isSource && isTarget:
		return b.syncAcross(ctx, source, target)
	default:
		return fmt.Errorf("client/folder: %w: no end is a Prefix", client.ErrInvalid)
	}
}

// syncUp adds a folder's files, and the deletions of blobs without a file.
func (b *Batch) syncUp(ctx context.Context, from Dir, to Prefix) error {
	files, skipped, err := listDir(from, b.o.Filter)
	if err := b.tolerate(err); err != nil {
		return err
	}
	stored, err := list(ctx, to, b.o.Filter)
	if err != nil {
		return err
	}
	adoptForms(files, stored)
	b.addFiles(from, files, skipped, to, stored)
	b.mirrored.empty, b.mirrored.nothing = len(files) == 0, len(files)+len(skipped) == 0 && b.incomplete == nil && b.o.Filter == nil
	extra := maps.Clone(stored)
	for _, f := range files {
		delete(extra, f.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if !isSkipped(name, skipped) {
			b.addRemoval(deletion(to.item(name), false, &b.o))
		}
	}
	return b.trackUp(ctx, from, files, to, stored)
}

// SourceIsEmpty reports whether Sync has found nothing in its source, neither to add nor to skip.
func (b *Batch) SourceIsEmpty() bool { return b.mirrored != nil && b.mirrored.nothing }

// addRemoval adds the deletion for a name that the source does not have.
func (b *Batch) addRemoval(j job) {
	if b.mirrored.removes {
		b.deletions = append(b.deletions, j)
	}
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
	form := norm.NFC.String(name) + "/"
	return slices.ContainsFunc(skipped, func(s tree.Skipped) bool { return strings.HasPrefix(form, norm.NFC.String(s.Name)+"/") })
}

// syncDown adds the blobs below a prefix, and the removals of files without a blob.
func (b *Batch) syncDown(ctx context.Context, from Prefix, to Dir) error {
	t, err := b.open(string(to), true)
	if err != nil {
		return err
	}
	listed, err := b.addBlobs(ctx, from, t, "")
	if err != nil {
		return err
	}
	b.mirrored.empty, b.mirrored.nothing = len(b.transfers) == 0, listed == 0
	if t.root == nil {
		return nil
	}
	files, _, err := listDir(to, b.o.Filter)
	if err := b.tolerate(err); err != nil {
		return err
	}
	for _, f := range files {
		if !t.names.Has(f.Name) {
			b.addRemoval(removal(t.root, f.Name, b.o.DryRun))
		}
	}
	return b.trackDown(ctx, t.root, files)
}

// syncAcross adds the blobs below a prefix, and the deletions of blobs that only the other has.
func (b *Batch) syncAcross(ctx context.Context, from, to Prefix) error {
	source, err := list(ctx, from, b.o.Filter)
	if err != nil {
		return err
	}
	stored, err := list(ctx, to, b.o.Filter)
	if err != nil {
		return err
	}
	b.addCopies(ctx, from, to, source, stored)
	b.mirrored.empty, b.mirrored.nothing = len(source) == 0, len(source) == 0 && b.o.Filter == nil
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if _, exists := source[name]; !exists {
			b.addRemoval(deletion(to.item(name), false, &b.o))
		}
	}
	b.trackAcross(source, to, stored)
	return nil
}

// removal returns the job that removes a local file.
func removal(root *os.Root, name string, dryRun bool) job {
	return job{source: localItem(root.Name(), name), does: Deleted, run: func(context.Context, func(done, total int64)) (outcome, error) {
		if dryRun {
			return outcome{}, nil
		}
		return outcome{}, tree.Remove(root, filepath.FromSlash(name))
	}}
}
