// Package tree reads and writes files in a local folder by names that come from elsewhere: it never
// leaves the folder, and follows no symbolic link in it.
package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// File is a regular file in a folder.
type File struct {
	Name string // relative to the folder, with slashes
	Size int64  // in bytes
}

// Reasons for which something in a folder is skipped.
var (
	ErrSymlink   = errors.New("it is a symbolic link")
	ErrIrregular = errors.New("it is not a regular file") // but a pipe, a socket or a device
)

// Skipped is something in a folder that is neither a regular file nor a folder.
type Skipped struct {
	Name string // relative to the folder, with slashes
	Err  error  // the reason
}

// List returns the regular files in a folder and in its subfolders, in the order of fs.WalkDir, and
// separately everything that it skipped. It omits files if omit returns true for their base names.
// If the error is not nil, some folders could not be read, and the lists lack their contents.
func List(root *os.Root, omit func(base string) bool) (files []File, skipped []Skipped, err error) {
	var errs []error
	walk := func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			errs = append(errs, err)
		case entry.IsDir() || omit(entry.Name()):
		case entry.Type()&fs.ModeSymlink != 0:
			skipped = append(skipped, Skipped{name, ErrSymlink})
		case !entry.Type().IsRegular():
			skipped = append(skipped, Skipped{name, ErrIrregular})
		default:
			info, err := entry.Info()
			if err != nil {
				if !errors.Is(err, fs.ErrNotExist) { // removed since
					errs = append(errs, err)
				}
				return nil
			}
			files = append(files, File{name, info.Size()})
		}
		return nil
	}
	errs = append(errs, fs.WalkDir(root.FS(), ".", walk))
	return files, skipped, errors.Join(errs...)
}

// Open opens a regular file. It returns fs.ErrNotExist if there is none, and another error if there
// is something else, or if the path leads through a symbolic link.
func Open(root *os.Root, path string) (*os.File, error) {
	if err := checkFolders(root, path); err != nil {
		return nil, err
	}
	named, err := root.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(named, opened) {
		err = fmt.Errorf("%s was replaced while it was opened", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// MakeFolders creates a file's folders, unless they exist. It returns an error if one of them is
// something else, such as a symbolic link.
func MakeFolders(root *os.Root, file string) error {
	for _, dir := range foldersOf(file) {
		if err := root.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := checkFolder(root, dir); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes a regular file, and then each folder above it, up to root, that has become empty.
func Remove(root *os.Root, file string) error {
	if err := checkFolders(root, file); err != nil {
		return err
	}
	info, err := root.Lstat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", file)
	}
	if err := root.Remove(file); err != nil {
		return err
	}
	removeEmpty(root, file)
	return nil
}

// removeEmpty removes the folders above a removed file that have become empty.
func removeEmpty(root *os.Root, file string) {
	dirs := foldersOf(file)
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := root.Remove(dirs[i]); err != nil { // it is not empty
			break
		}
	}
}

// Rename moves the regular file at from to the path to. It first calls is with the file, and
// returns an error if that reports false. It creates the folders above to, and removes folders
// above from that have become empty. It returns fs.ErrExist if there is already something at to.
func Rename(root *os.Root, from, to string, is func(os.FileInfo) bool) error {
	if err := checkFolders(root, from); err != nil {
		return err
	}
	info, err := root.Lstat(from)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || !is(info):
		return fmt.Errorf("%s was replaced", from)
	}
	if err := MakeFolders(root, to); err != nil {
		return err
	}
	if _, err := root.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fs.ErrExist, err)
	}
	if err := root.Rename(from, to); err != nil {
		return err
	}
	removeEmpty(root, from)
	return nil
}

// foldersOf returns the folders above a file, the outermost first.
func foldersOf(file string) (dirs []string) {
	for dir := path.Dir(filepath.ToSlash(file)); dir != "."; dir = path.Dir(dir) {
		dirs = append([]string{filepath.FromSlash(dir)}, dirs...)
	}
	return dirs
}

func checkFolders(root *os.Root, file string) error {
	for _, dir := range foldersOf(file) {
		if err := checkFolder(root, dir); err != nil {
			return err
		}
	}
	return nil
}

func checkFolder(root *os.Root, dir string) error {
	info, err := root.Lstat(dir)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link, which is not followed", dir)
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	}
	return nil
}
