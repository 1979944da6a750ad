package folder

import (
	"context"
	"errors"
	"os"
	"strings"

	"sluice/client"
	"sluice/client/folder/tree"
)

// listDir lists a local folder. The error is a *ListError if some folders could not be read.
func listDir(dir Dir) ([]tree.File, []tree.Skipped, error) {
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return nil, nil, err
	}
	files, skipped, err := tree.List(root, client.IsTemporary)
	if err != nil {
		err = &ListError{err}
	}
	return files, skipped, errors.Join(err, root.Close())
}

// list returns the blobs below a prefix by their names relative to it.
func list(ctx context.Context, below Prefix) (map[string]client.Blob, error) {
	blobs := map[string]client.Blob{}
	for e, err := range below.Client.List(ctx, below.Account, client.ListOptions{Prefix: below.name(), Metadata: true}) {
		if err != nil {
			return nil, &Error{Source: below.item(""), Err: err}
		}
		blobs[strings.TrimPrefix(e.Name, below.name())] = e.Blob
	}
	return blobs, nil
}
