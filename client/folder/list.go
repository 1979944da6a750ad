package folder

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"sluice/client"
	"sluice/client/folder/tree"
)

// listDir lists the files in a local folder that a filter includes. The error is a *ListError if
// some folders could not be read.
func listDir(dir Dir, filter *Filter) ([]tree.File, []tree.Skipped, error) {
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return nil, nil, err
	}
	files, skipped, err := tree.List(root, client.IsTemporary)
	if err != nil {
		err = &ListError{err}
	}
	files = slices.DeleteFunc(files, func(f tree.File) bool { return !filter.Includes(f.Name) })
	skipped = slices.DeleteFunc(skipped, func(s tree.Skipped) bool { return !filter.Includes(s.Name) })
	return files, skipped, errors.Join(err, root.Close())
}

// list returns the blobs below a prefix, as far as a filter includes them, by their names relative
// to it.
func list(ctx context.Context, below Prefix, filter *Filter) (map[string]client.Blob, error) {
	blobs := map[string]client.Blob{}
	for e, err := range below.Client.List(ctx, below.Account, client.ListOptions{Prefix: below.name(), Metadata: true}) {
		if err != nil {
			return nil, &Error{Source: below.item(""), Err: err}
		}
		if name := strings.TrimPrefix(e.Name, below.name()); filter.Includes(name) {
			blobs[name] = e.Blob
		}
	}
	return blobs, nil
}
