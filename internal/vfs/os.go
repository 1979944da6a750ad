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
func (osFS) Space(dir string) (Space, error)           { return statfs(dir) }
