package folder

import (
	"context"
	"errors"
	"os"
	"sync"

	"sluice/client"
	"sluice/client/folder/tree"
)

// trackUp makes jobs rename and copy blobs that have a file's content, in place of sending it.
func (b *Batch) trackUp(ctx context.Context, from Dir, files []tree.File, to Prefix, stored map[string]client.Blob) error {
	if !b.o.TrackRenames {
		return nil
	}
	read, err := b.readCandidates(ctx, from, files, stored)
	if err != nil {
		return err
	}
	missing := map[string]content{}
	for name, f := range read {
		missing[name] = content{f.size, f.etag}
	}
	renames := map[Item]*rename{}
	item := func(name string) Item { return to.has(name, stored) }
	for name, o := range b.origins(missing, contentsOf(stored), item) {
		f, blob, target := read[name], stored[o.name], to.item(name)
		options := b.o.Put
		if b.o.Preserve {
			options = withAttributes(options, f.info)
		}
		if options.ContentType == "" {
			options.ContentType = client.ContentType(target.Name, f.first)
		}
		if o.moves {
			options = b.renamedOptions(&blob, blob.Name, target.Name, f.first)
		}
		u := &upload{path: f.path, to: target, options: b.o.Put}
		renames[target] = b.renameBlob(o, &duplicate{from: item(o.name), blob: blob, to: target, options: options}, f.unchanged, u.forget)
	}
	b.setRenames(renames)
	return nil
}

// renamedOptions returns the properties of a blob that gets another name: it keeps its own, except
// those that Options.Put sets, and a content type that was guessed by the earlier name.
func (b *Batch) renamedOptions(blob *client.Blob, from, to string, first []byte) client.PutOptions {
	o := b.copyOptions(blob)
	if b.o.Put.ContentType == "" && blob.ContentType == client.ContentType(from, first) {
		o.ContentType = client.ContentType(to, first)
	}
	return o
}

// trackAcross makes jobs rename and copy blobs in the target in place of reading them from the
// source. The result has the properties that it would have otherwise.
func (b *Batch) trackAcross(source map[string]client.Blob, to Prefix, stored map[string]client.Blob) {
	if !b.o.TrackRenames {
		return
	}
	missing := contentsOf(source)
	for name := range stored {
		delete(missing, name)
	}
	renames := map[Item]*rename{}
	for name, o := range b.origins(missing, contentsOf(stored), to.item) {
		blob, has, target := source[name], stored[o.name], to.item(name)
		d := &duplicate{from: to.item(o.name), blob: has, to: target, options: b.copyOptions(&blob)}
		forget := func(ctx context.Context) error {
			d.forget(ctx, b.o.StateDir)
			return nil
		}
		renames[target] = b.renameBlob(o, d, func() bool { return true }, forget)
	}
	b.setRenames(renames)
}

// contentsOf returns the contents of blobs.
func contentsOf(blobs map[string]client.Blob) map[string]content {
	contents := map[string]content{}
	for name := range blobs {
		contents[name] = content{blobs[name].Size, blobs[name].ETag}
	}
	return contents
}

// origins returns the origins of names that the target lacks. Entries that are to be deleted may be
// moved. item returns the entry with a name.
func (b *Batch) origins(missing, has map[string]content, item func(name string) Item) map[string]origin {
	removed := b.removed()
	var extra []string
	for name := range has {
		if removed[item(name)] {
			extra = append(extra, name)
		}
	}
	return originsOf(missing, has, extra)
}

// removed returns the entries that are to be deleted.
func (b *Batch) removed() map[Item]bool {
	items := map[Item]bool{}
	for i := range b.deletions {
		items[b.deletions[i].source] = true
	}
	return items
}

// setRenames assigns to each job the rename for its target, if there is one.
func (b *Batch) setRenames(renames map[Item]*rename) {
	moved := map[Item]*rename{}
	var transfers []job
	for _, j := range b.transfers {
		r := renames[j.target]
		j.rename = r
		switch {
		case r == nil:
			transfers = append(transfers, j)
		case r.moves:
			moved[r.from] = r
			b.moves = append(b.moves, j)
		default:
			b.copies = append(b.copies, j)
		}
	}
	b.transfers = transfers
	for i := range b.deletions {
		b.deletions[i].unless = moved[b.deletions[i].source]
	}
}

// renameBlob returns a blob's rename to d's name, with d's properties. It is moved if it has the
// properties already; otherwise it is copied, and deleted when everything was copied. It is not
// possible any more if the source is not still the same. forget removes an interrupted transfer's
// files.
func (b *Batch) renameBlob(o origin, d *duplicate, still func() bool, forget func(context.Context) error) *rename {
	run := func(ctx context.Context, moves bool) (outcome, bool, error) {
		if !still() {
			return outcome{}, false, nil
		}
		if b.o.DryRun {
			return outcome{size: d.blob.Size, etag: d.blob.ETag}, true, nil
		}
		named, possible, err := d.renameWithin(ctx, moves)
		if err != nil || !possible {
			return outcome{}, possible, err
		}
		return outcome{size: named.Size, etag: named.ETag}, true, forget(ctx)
	}
	return &rename{from: d.from, moves: o.moves && sameProperties(&d.options, &d.blob), run: run}
}

// renameWithin lets the service move or copy the blob. It returns false if the blob's bytes must be
// transferred, even if the service has refused this one alone, for example because the blob was
// replaced meanwhile.
func (d *duplicate) renameWithin(ctx context.Context, moves bool) (named client.Blob, possible bool, err error) {
	if moves {
		// The conditions make a repeated move find its result, and replace nothing.
		named, err = d.from.Client.Move(ctx, d.from.blobName(), d.to.blobName(), client.MoveOptions{IfMatch: d.blob.ETag, Target: client.TargetConditions{IfAbsent: true}})
	} else if named, possible, err = d.copyWithin(ctx); !possible {
		return client.Blob{}, false, nil
	}
	e, reported := errors.AsType[*client.Error](err)
	if reported && (cannotWithin(e) || !ConcernsAll(err) && !errors.Is(err, client.ErrOutcomeUnknown)) {
		return client.Blob{}, false, nil
	}
	return named, true, err
}

// readFile is a local file that was read for its ETag.
type readFile struct {
	path  string
	size  int64
	info  os.FileInfo
	etag  string // "": it cannot be read, or is not regular
	first []byte // its first bytes
}

// readCandidates reads the files without a blob of that name, if a blob has their size.
func (b *Batch) readCandidates(ctx context.Context, dir Dir, files []tree.File, stored map[string]client.Blob) (map[string]*readFile, error) {
	sizes := sizesOf(contentsOf(stored))
	read := map[string]*readFile{}
	var all []*readFile
	for _, f := range files {
		if _, exists := stored[f.Name]; !exists && sizes[f.Size] {
			read[f.Name] = &readFile{path: localItem(string(dir), f.Name).Name, size: f.Size}
			all = append(all, read[f.Name])
		}
	}
	open := func(f *readFile) (*os.File, error) { return openRegular(f.path) }
	return read, b.readAll(ctx, all, open)
}

// openRegular opens a file. It returns an error for anything that cannot be read twice, such as a
// pipe.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = tree.ErrIrregular
	}
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// readAll reads files, a few at a time. Those that cannot be read are left to their transfers,
// which report it.
func (b *Batch) readAll(ctx context.Context, files []*readFile, open func(*readFile) (*os.File, error)) error {
	next := make(chan *readFile)
	var workers sync.WaitGroup
	for range b.slots() {
		workers.Go(func() {
			for f := range next {
				if file, err := open(f); err == nil {
					f.read(ctx, file)
				}
			}
		})
	}
	for _, f := range files {
		next <- f
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// read reads and closes the file.
func (f *readFile) read(ctx context.Context, file *os.File) {
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil || info.Size() != f.size {
		return
	}
	first := make([]byte, min(client.SniffedBytes, f.size))
	if _, err := file.ReadAt(first, 0); err != nil {
		return
	}
	if etag, err := etagOf(ctx, file); err == nil {
		f.info, f.etag, f.first = info, etag, first
	}
}

// unchanged reports whether the file is as it was when it was read.
func (f *readFile) unchanged() bool {
	info, err := os.Stat(f.path)
	return err == nil && f.is(info)
}

// is reports whether info describes the file as it was when it was read.
func (f *readFile) is(info os.FileInfo) bool {
	return os.SameFile(info, f.info) && info.Size() == f.info.Size() && info.ModTime().Equal(f.info.ModTime())
}
