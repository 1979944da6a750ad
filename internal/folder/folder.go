// Package folder maps names of blobs to files of a folder. No file is outside of the folder, and no
// symbolic link in it is followed.
package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// File is a regular file of a folder.
type File struct {
	Name string // relative to the folder, with slashes
	Size int64  // in bytes
}

// Skipped is what is in a folder and is not a regular file or a folder.
type Skipped struct {
	Name   string // relative to the folder, with slashes
	Reason string
}

// List returns the regular files of a folder and of the folders in it, except those whose base names
// omit reports, and what else is there. If the error is not nil, some folders could not be read, and
// the lists lack their contents.
func List(root *os.Root, omit func(base string) bool) (files []File, skipped []Skipped, err error) {
	var errs []error
	walk := func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			errs = append(errs, err)
		case entry.IsDir() || omit(entry.Name()):
		case entry.Type()&fs.ModeSymlink != 0:
			skipped = append(skipped, Skipped{name, "it is a symbolic link"})
		case !entry.Type().IsRegular():
			skipped = append(skipped, Skipped{name, "it is not a regular file"})
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

// Open opens a regular file. It returns fs.ErrNotExist if there is none, and another error if
// there is something else or if the path contains a symbolic link.
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

// MakeFolders creates the folders in which a file will be. It returns an error if one of them exists
// and is not a folder: a symbolic link is not one.
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

// Remove removes a regular file, and then the folders in which it was, up to root, that have become
// empty.
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
	dirs := foldersOf(file)
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := root.Remove(dirs[i]); err != nil { // it is not empty
			break
		}
	}
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
