package folder

import (
	"context"
	"os"
	"path/filepath"

	"sluice/client/folder/tree"
)

// trackDown makes jobs rename local files that are to be removed, in place of reading blobs with
// their content. A file is read only if a blob without a file has its size.
func (b *Batch) trackDown(ctx context.Context, root *os.Root, files []tree.File) error {
	if !b.o.TrackRenames {
		return nil
	}
	item := func(name string) Item { return localItem(root.Name(), name) }
	wanted := b.without(files, root.Name())
	missing := contentsOfJobs(wanted)
	read, err := b.readRemoved(ctx, root, files, missing)
	if err != nil {
		return err
	}
	has := map[string]content{}
	for name, f := range read {
		has[name] = content{f.size, f.etag}
	}
	renames := map[Item]*rename{}
	for name, o := range b.origins(missing, has, item) {
		if o.moves {
			d := &download{from: wanted[name].source, root: root, path: filepath.FromSlash(name)}
			renames[item(name)] = b.renameFile(item(o.name), read[o.name], d)
		}
	}
	b.setRenames(renames)
	return nil
}

// without returns the transfers to a folder that has no such file, by the files' names.
func (b *Batch) without(files []tree.File, dir string) map[string]*job {
	jobs := map[Item]*job{}
	for i := range b.transfers {
		jobs[b.transfers[i].target] = &b.transfers[i]
	}
	for _, f := range files {
		delete(jobs, localItem(dir, f.Name))
	}
	named := map[string]*job{}
	for item, j := range jobs {
		if path, err := filepath.Rel(dir, item.Name); err == nil {
			named[filepath.ToSlash(path)] = j
		}
	}
	return named
}

// contentsOfJobs returns the contents that the jobs transfer.
func contentsOfJobs(jobs map[string]*job) map[string]content {
	contents := map[string]content{}
	for name, j := range jobs {
		contents[name] = content{j.size, j.etag}
	}
	return contents
}

// readRemoved reads the files that are to be removed and have the size of something missing.
func (b *Batch) readRemoved(ctx context.Context, root *os.Root, files []tree.File, missing map[string]content) (map[string]*readFile, error) {
	sizes, removed := sizesOf(missing), b.removed()
	read := map[string]*readFile{}
	var all []*readFile
	for _, f := range files {
		if sizes[f.Size] && removed[localItem(root.Name(), f.Name)] {
			read[f.Name] = &readFile{path: filepath.FromSlash(f.Name), size: f.Size}
			all = append(all, read[f.Name])
		}
	}
	return read, b.readAll(ctx, all, func(f *readFile) (*os.File, error) { return tree.Open(root, f.path) })
}

// renameFile returns the rename of a file to the one that d would write. It is not possible if the
// file has changed since it was read, or if there is something under the new name: then d decides.
func (b *Batch) renameFile(from Item, f *readFile, d *download) *rename {
	run := func(_ context.Context, moves bool) (outcome, bool, error) {
		result := outcome{size: f.size, etag: f.etag}
		switch {
		case !moves:
			return outcome{}, false, nil
		case b.o.DryRun:
			return result, true, nil
		}
		if err := tree.Rename(d.root, f.path, d.path, f.is); err != nil {
			return outcome{}, false, nil //nolint:nilerr // see above
		}
		return result, true, d.forget()
	}
	return &rename{from: from, moves: true, run: run}
}
