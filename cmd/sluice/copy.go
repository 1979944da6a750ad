package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
)

// copier copies blobs between servers, or to other names of one.
type copier struct {
	from, to *client.Client
}

// copyStateDir returns the folder in which interrupted copies are remembered: it is in the user's
// folder for caches. It returns "" if there is no such folder.
func copyStateDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "sluice", "copies")
}

// run copies blobs, or with recursive the blobs below prefixes. Of several, those that do not exist
// fail by themselves.
func (c *copier) run(ctx context.Context, b *batch, sources []operand.Remote, to operand.Remote, recursive bool) error {
	several := len(sources) > 1
	if several {
		if err := checkPrefix(to); err != nil {
			return err
		}
		if err := checkKeptNames(sources, to); err != nil {
			return err
		}
	}
	for _, from := range sources {
		target := to
		if several || !recursive && to.Folder() {
			target = below(asFolder(to), keptName(from))
		}
		err := c.add(ctx, b, from, target, recursive)
		if e, known := errors.AsType[*exitError](err); several && known {
			b.refuse(from.String(), exitWith(e.code, err))
		} else if err != nil {
			return err
		}
	}
	return b.run(ctx)
}

// checkKeptNames returns an error unless each of several blobs or prefixes has a name of its own.
func checkKeptNames(sources []operand.Remote, to operand.Remote) error {
	seen := map[string]operand.Remote{}
	for _, from := range sources {
		name := keptName(from)
		if other, exists := seen[name]; exists {
			return bothWouldBe(other.String(), from.String(), below(asFolder(to), name))
		}
		seen[name] = from
	}
	return nil
}

// add adds a blob, or the blobs below a prefix.
func (c *copier) add(ctx context.Context, b *batch, from, to operand.Remote, recursive bool) error {
	switch {
	case recursive:
		err := b.Copy(ctx, b.prefix(c.from, asFolder(from)), b.prefix(c.to, asFolder(to)))
		if errors.Is(err, folder.ErrEmpty) {
			return b.nothingAt(asFolder(from))
		}
		return b.listError(err)
	case from.Folder():
		return usagef("%s is not a blob: use -r to copy all blobs below it", terminal.Name(from.String()))
	}
	found, err := listed(ctx, c.from, from)
	switch {
	case err != nil:
		return blobError(from, err)
	case found == nil:
		return blobError(from, withBelow(ctx, c.from, from, exitWith(exitNotFound, errors.New("the blob does not exist")), "use -r"))
	}
	b.CopyBlob(b.item(c.from, from), *found, b.item(c.to, to))
	return nil
}
