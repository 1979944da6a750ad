package folder

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"

	"golang.org/x/text/unicode/norm"

	"sluice/client"
	"sluice/client/folder/tree"
)

// Upload adds the files in a folder and in its subfolders, which become blobs below a prefix. It
// lists both sides, and reports everything that is skipped. It returns fs.ErrNotExist if the folder
// does not exist, ErrEmpty if there is nothing in it, and a *ListError if not all of it can be
// read. With a key that may only write, every file is stored, because the blobs cannot be listed.
func (b *Batch) Upload(ctx context.Context, from Dir, to Prefix) error {
	files, skipped, err := listDir(from, b.o.Filter)
	if err != nil {
		return err
	}
	stored, err := list(ctx, to, b.o.Filter)
	if err != nil && !errors.Is(err, client.ErrForbidden) {
		return err
	}
	adoptForms(files, stored)
	b.addFiles(from, files, skipped, to, stored)
	if len(files)+len(skipped) == 0 && b.o.Filter == nil {
		return ErrEmpty
	}
	return nil
}

// UploadFile adds a single file. If it is not regular, such as a pipe, it is stored up to its end.
// known is the blob if it exists and was listed with its metadata: it is left alone if it is the
// same already.
func (b *Batch) UploadFile(path string, to Item, known *client.Blob) {
	size := int64(-1)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	b.addFile(path, size, to, known)
}

// addFiles adds a folder's files, and reports everything that is skipped.
func (b *Batch) addFiles(dir Dir, files []tree.File, skipped []tree.Skipped, to Prefix, stored map[string]client.Blob) {
	for _, s := range skipped {
		b.conclude(&job{source: localItem(string(dir), s.Name)}, Event{Kind: Skipped, Err: s.Err})
	}
	for _, f := range files {
		var known *client.Blob
		if blob, exists := stored[f.Name]; exists {
			known = &blob
		}
		b.addFile(localItem(string(dir), f.Name).Name, f.Size, to.has(f.Name, stored), known)
	}
}

// adoptForms makes stored have blobs by the names of their files where only the composition of
// characters differs: some file systems return decomposed names, whatever a file's creator wrote.
func adoptForms(files []tree.File, stored map[string]client.Blob) {
	forms := map[string]string{}
	for name := range stored {
		forms[norm.NFC.String(name)] = name
	}
	for _, f := range files {
		if _, exact := stored[f.Name]; exact {
			delete(forms, norm.NFC.String(f.Name))
		}
	}
	for _, f := range files {
		form := norm.NFC.String(f.Name)
		name, exists := forms[form]
		if _, exact := stored[f.Name]; exists && !exact {
			stored[f.Name] = stored[name]
			delete(stored, name)
			delete(forms, form)
		}
	}
}

// addFile adds the job that stores a file.
func (b *Batch) addFile(path string, size int64, to Item, known *client.Blob) {
	u := &upload{path: path, size: size, to: to, known: known, dryRun: b.o.DryRun, contentOnly: b.o.ContentOnly, preserve: b.o.Preserve, options: b.o.Put}
	b.transfers = append(b.transfers, job{source: Item{Name: path}, target: to, size: size, run: u.run})
}

// upload stores a file.
type upload struct {
	path  string
	size  int64
	to    Item
	known *client.Blob

	dryRun, contentOnly, preserve bool
	options                       client.PutOptions
}

func (u *upload) run(ctx context.Context, progress func(done, total int64)) (outcome, error) {
	u.options.StateFile, u.options.Size, u.options.Progress = "", 0, progress
	same, err := u.prepare(ctx)
	switch {
	case err != nil:
		return outcome{}, err
	case same:
		return outcome{size: u.known.Size, etag: u.known.ETag, unchanged: true}, u.forget(ctx)
	case u.dryRun:
		return outcome{size: u.size}, nil
	}
	b, err := u.to.Client.PutFile(ctx, u.to.Account, u.to.Name, u.path, u.options)
	return outcome{size: b.Size, etag: b.ETag}, err
}

// forget removes an interrupted upload's remains, which are not needed any more: for example the
// response to its last request was lost.
func (u *upload) forget(ctx context.Context) error {
	if u.dryRun {
		return nil
	}
	err := u.to.Client.ForgetUpload(ctx, u.to.Account, u.to.Name, u.path, u.options)
	if errors.Is(err, client.ErrBusy) { // it belongs to another process
		return nil
	}
	return err
}

// withAttributes returns the options for a file with its attributes in the metadata, unless they
// are there already.
func withAttributes(o client.PutOptions, info os.FileInfo) client.PutOptions {
	metadata := client.FileMetadata(info)
	maps.Copy(metadata, o.Metadata)
	o.Metadata = metadata
	return o
}

// prepare sets the content type and metadata, and reports whether the known blob is the same
// already.
func (u *upload) prepare(ctx context.Context) (same bool, err error) {
	info, err := os.Stat(u.path)
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() { // a pipe: its bytes cannot be read again
		u.options.ContentType = cmp.Or(u.options.ContentType, client.ContentType(u.to.Name, nil))
		return false, nil
	}
	if u.preserve {
		u.options = withAttributes(u.options, info)
	}
	f, err := os.Open(u.path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if u.options.ContentType == "" {
		if u.options.ContentType, err = client.ContentTypeOf(u.to.Name, f); err != nil {
			return false, err
		}
	}
	if u.known == nil || !u.contentOnly && !sameProperties(&u.options, u.known) {
		return false, nil
	}
	return sameContent(ctx, f, u.known)
}
