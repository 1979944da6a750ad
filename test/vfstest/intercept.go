package vfstest

import (
	"fmt"
	"io/fs"

	"sluice/internal/vfs"
)

// Kind is an operation's kind.
type Kind string

// The kinds of operations. Those from KindRead on belong to an open file.
const (
	KindOpen    Kind = "open"
	KindCreate  Kind = "create"
	KindRename  Kind = "rename"
	KindRemove  Kind = "remove"
	KindMkdir   Kind = "mkdir"
	KindReadDir Kind = "readdir"
	KindSyncDir Kind = "fsync folder"
	KindWhole   Kind = "open file system"
	KindSyncAll Kind = "sync file system"
	KindSpace   Kind = "statfs"
	KindRead    Kind = "read"
	KindWrite   Kind = "write"
	KindSeek    Kind = "seek"
	KindStat    Kind = "fstat"
	KindSync    Kind = "fsync"
	KindClose   Kind = "close"
)

// Op is an operation that is about to be performed.
type Op struct {
	Kind Kind
	Name string // the file or folder
	To   string // the new name of a rename or a replace
	Len  int    // how many bytes a read or write has
}

// String returns the operation as a line of text.
func (op Op) String() string {
	switch op.Kind {
	case KindRename:
		return fmt.Sprintf("%s %s %s", op.Kind, op.Name, op.To)
	case KindRead, KindWrite:
		return fmt.Sprintf("%s %s %d", op.Kind, op.Name, op.Len)
	}
	return fmt.Sprintf("%s %s", op.Kind, op.Name)
}

// Hook performs an operation by calling do at most once, and returns the error that the operation's
// caller gets. It may reduce op.Len before it calls do, for a short read or write.
type Hook func(op *Op, do func() error) error

// Intercept returns fsys with every operation passed to hook. The hook must be safe for concurrent
// use if the file system is used concurrently. The files are not *os.File.
func Intercept(fsys vfs.FS, hook Hook) vfs.FS { return &interceptFS{fsys, hook} }

// Trace returns fsys with a call of log after every operation. Its line is [Op.String] and, if the
// operation failed, ": " and the error. Concurrent operations call log concurrently.
func Trace(fsys vfs.FS, log func(line string)) vfs.FS {
	return Intercept(fsys, func(op *Op, do func() error) error {
		err := do()
		if err != nil {
			log(fmt.Sprintf("%s: %v", op, err))
		} else {
			log(op.String())
		}
		return err
	})
}

type interceptFS struct {
	fs   vfs.FS
	hook Hook
}

func (i *interceptFS) Open(name string) (vfs.File, error) {
	return i.file(KindOpen, name, i.fs.Open)
}

func (i *interceptFS) Create(name string) (vfs.File, error) {
	return i.file(KindCreate, name, i.fs.Create)
}

func (i *interceptFS) file(kind Kind, name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	err := i.hook(&Op{Kind: kind, Name: name}, func() (err error) {
		f, err = open(name)
		return err
	})
	if err != nil {
		if f != nil { // it was opened, although the hook reports an error
			_ = f.Close()
		}
		return nil, err
	}
	return &interceptFile{f, name, i.hook}, nil
}

func (i *interceptFS) Rename(oldname, newname string) error {
	return i.hook(&Op{Kind: KindRename, Name: oldname, To: newname}, func() error {
		return i.fs.Rename(oldname, newname)
	})
}

func (i *interceptFS) Remove(name string) error {
	return i.hook(&Op{Kind: KindRemove, Name: name}, func() error { return i.fs.Remove(name) })
}

func (i *interceptFS) Mkdir(dir string) error {
	return i.hook(&Op{Kind: KindMkdir, Name: dir}, func() error { return i.fs.Mkdir(dir) })
}

func (i *interceptFS) SyncDir(dir string) error {
	return i.hook(&Op{Kind: KindSyncDir, Name: dir}, func() error { return i.fs.SyncDir(dir) })
}

func (i *interceptFS) Whole(dir string) (whole vfs.Whole, err error) {
	err = i.hook(&Op{Kind: KindWhole, Name: dir}, func() (err error) {
		whole, err = i.fs.Whole(dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	return interceptWhole{whole, dir, i.hook}, nil
}

type interceptWhole struct {
	vfs.Whole
	dir  string
	hook Hook
}

func (i interceptWhole) Sync() error {
	return i.hook(&Op{Kind: KindSyncAll, Name: i.dir}, i.Whole.Sync)
}

func (i *interceptFS) ReadDir(dir string) (entries []fs.DirEntry, err error) {
	err = i.hook(&Op{Kind: KindReadDir, Name: dir}, func() (err error) {
		entries, err = i.fs.ReadDir(dir)
		return err
	})
	return entries, err
}

func (i *interceptFS) Space(dir string) (space vfs.Space, err error) {
	err = i.hook(&Op{Kind: KindSpace, Name: dir}, func() (err error) {
		space, err = i.fs.Space(dir)
		return err
	})
	return space, err
}

type interceptFile struct {
	f    vfs.File
	name string
	hook Hook
}

func (i *interceptFile) Read(p []byte) (n int, err error) {
	op := &Op{Kind: KindRead, Name: i.name, Len: len(p)}
	err = i.hook(op, func() (err error) {
		n, err = i.f.Read(p[:op.Len])
		return err
	})
	return n, err
}

func (i *interceptFile) ReadAt(p []byte, off int64) (n int, err error) {
	op := &Op{Kind: KindRead, Name: i.name, Len: len(p)}
	err = i.hook(op, func() (err error) {
		n, err = i.f.ReadAt(p[:op.Len], off)
		return err
	})
	return n, err
}

func (i *interceptFile) Write(p []byte) (n int, err error) {
	op := &Op{Kind: KindWrite, Name: i.name, Len: len(p)}
	err = i.hook(op, func() (err error) {
		n, err = i.f.Write(p[:op.Len])
		return err
	})
	return n, err
}

func (i *interceptFile) Seek(offset int64, whence int) (pos int64, err error) {
	err = i.hook(&Op{Kind: KindSeek, Name: i.name}, func() (err error) {
		pos, err = i.f.Seek(offset, whence)
		return err
	})
	return pos, err
}

func (i *interceptFile) Stat() (info fs.FileInfo, err error) {
	err = i.hook(&Op{Kind: KindStat, Name: i.name}, func() (err error) {
		info, err = i.f.Stat()
		return err
	})
	return info, err
}

func (i *interceptFile) Sync() error {
	return i.hook(&Op{Kind: KindSync, Name: i.name}, i.f.Sync)
}

func (i *interceptFile) Close() error {
	return i.hook(&Op{Kind: KindClose, Name: i.name}, i.f.Close)
}
