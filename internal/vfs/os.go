package vfs

import (
	"io/fs"
	"os"
)

// OS returns the operating system's file system. Its files are *os.File, so that package net can
// send them without copying (sendfile).
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) Open(name string) (File, error) {
	f, err := openFile(name)
	if err != nil {
		return nil, err // not f: a nil *os.File is not a nil File
	}
	return f, nil
}

func (osFS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFS) Rename(oldname, newname string) error      { return renameNoReplace(oldname, newname) }
func (osFS) Remove(name string) error                  { return os.Remove(name) }
func (osFS) Mkdir(dir string) error                    { return os.Mkdir(dir, 0o700) }
func (osFS) ReadDir(dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }
func (osFS) SyncDir(dir string) error                  { return syncDir(dir) }
func (osFS) Whole(dir string) (Whole, error)           { return openWhole(dir) }
func (osFS) Space(dir string) (Space, error)           { return statfs(dir) }

// Identity returns a text that identifies the file at name as long as it exists: it stays the same
// when the file is written or renamed in its file system, and a copy has another text. It is the
// inode's number with the file's birth, or with the device where the file system does not record
// births, and on Windows the file's and the volume's number with the birth. The text is for
// comparisons.
func Identity(name string) (string, error) { return identity(name) }
