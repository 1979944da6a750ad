package folder

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"sluice/client"
	"sluice/client/folder/tree"
)

// target is a local folder that is written.
type target struct {
	dir   string
	root  *os.Root // nil in a dry run if there is no such folder
	names tree.Names

	// publisher publishes received files. It is nil if nothing is written.
	publisher *publisher
}

// openTarget opens a folder that is written, unless the run is dry.
func openTarget(dir string, create, dryRun bool) (*target, error) {
	root, err := openRoot(dir, create && !dryRun)
	if dryRun && create && errors.Is(err, fs.ErrNotExist) {
		return &target{dir: dir}, nil
	}
	if err != nil || dryRun {
		return &target{dir: dir, root: root}, err
	}
	group, err := client.NewFileGroup(root)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &target{dir: dir, root: root, publisher: &publisher{group: group}}, nil
}

func (t *target) close() error {
	var err error
	if t.publisher != nil {
		err = t.publisher.group.Close()
	}
	if t.root != nil {
		err = errors.Join(err, t.root.Close())
	}
	return err
}

// openRoot opens a local folder. With create, it creates the folder first.
func openRoot(dir string, create bool) (*os.Root, error) {
	if create {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
	}
	return os.OpenRoot(dir)
}

// ErrTemporary is the reason for which Download skips a blob if its file would be taken for a
// temporary one.
var ErrTemporary = errors.New("the name belongs to a temporary file of a transfer")

// path returns the file's path for a name.
func (t *target) path(name string) (string, error) {
	if slices.ContainsFunc(strings.Split(name, "/"), client.IsTemporary) {
		return "", ErrTemporary
	}
	return t.names.Add(name)
}
