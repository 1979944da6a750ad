package localfs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/bytestore/bytetest"
	"sluice/test/testenv"
)

// BenchmarkLayouts compares ways to make an object durable, without anything else: a file that is
// synced and then renamed, as localfs does; a file that is renamed and then synced; a segment file
// to which many objects are appended; and a segment file with blocks that were written before. A
// segment's syncs are shared. The reasons for the layout are in
// docs/decisions/0042-journal.md.
func BenchmarkLayouts(b *testing.B) {
	for _, size := range []int{16 << 10, 64 << 10, 256 << 10, 1 << 20} {
		for _, goroutines := range []int{1, 16} {
			data := make([]byte, size)
			for _, layout := range []struct {
				name string
				put  func(b *testing.B, data []byte) func() error
			}{{"rename", renames}, {"renameFirst", renamesFirst}, {"append", appends}, {"overwrite", overwrites}} {
				b.Run(fmt.Sprintf("%dKiB/%dgoroutines/%s", size>>10, goroutines, layout.name), func(b *testing.B) {
					bytetest.Parallel(b, goroutines, int64(size), layout.put(b, data))
				})
			}
		}
	}
}

// shards makes 256 folders and returns a function that returns a new name in one of them.
func shards(b *testing.B) func() (dir, name string) {
	root := testenv.MemoryDir(b)
	for i := range 256 {
		testenv.OK(b, os.Mkdir(filepath.Join(root, fmt.Sprint(i)), 0o700))
	}
	var n atomic.Int64
	return func() (dir, name string) {
		i := n.Add(1)
		return filepath.Join(root, fmt.Sprint(i*37%256)), fmt.Sprint(i)
	}
}

func renames(b *testing.B, data []byte) func() error {
	next := shards(b)
	return func() error {
		dir, name := next()
		temp := filepath.Join(dir, ".put-"+name)
		err := errors.Join(writeAndSync(temp, data), os.Rename(temp, filepath.Join(dir, name)))
		return errors.Join(err, syncFolder(dir))
	}
}

func renamesFirst(b *testing.B, data []byte) func() error {
	next := shards(b)
	return func() error {
		dir, name := next()
		temp := filepath.Join(dir, ".put-"+name)
		f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, os.Rename(temp, filepath.Join(dir, name)), f.Sync(), f.Close(), syncFolder(dir))
	}
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func appends(b *testing.B, data []byte) func() error { return newSegment(b, 0).put(data) }

// overwrites begins again at a segment's front after 256 MiB.
func overwrites(b *testing.B, data []byte) func() error {
	s := newSegment(b, 256<<20)
	block := make([]byte, 1<<20)
	for off := int64(0); off < s.size; off += int64(len(block)) {
		testenv.Must(s.file.WriteAt(block, off))(b)
	}
	testenv.OK(b, s.file.Sync())
	return s.put(data)
}

// segment is a file of many objects. A sync is shared by the writes that ended before it began.
type segment struct {
	file *os.File
	size int64 // 0: unlimited
	end  atomic.Int64

	mu   sync.Mutex
	next *sharedSync // the sync that has not begun
	last *sharedSync
}

type sharedSync struct {
	before *sharedSync
	done   chan struct{}
	err    error
}

func newSegment(b *testing.B, size int64) *segment {
	file := testenv.Must(os.Create(filepath.Join(testenv.MemoryDir(b), "segment")))(b)
	testenv.AtEnd(b, file.Close)
	none := &sharedSync{done: make(chan struct{})}
	close(none.done)
	return &segment{file: file, size: size, last: none}
}

func (s *segment) put(data []byte) func() error {
	return func() error {
		off := s.end.Add(int64(len(data))) - int64(len(data))
		if s.size > 0 {
			off %= s.size - int64(len(data))
		}
		if _, err := s.file.WriteAt(data, off); err != nil {
			return err
		}
		return s.sync()
	}
}

func (s *segment) sync() error {
	s.mu.Lock()
	leads := s.next == nil
	if leads {
		s.next = &sharedSync{before: s.last, done: make(chan struct{})}
		s.last = s.next
	}
	mine := s.next
	s.mu.Unlock()
	if leads {
		<-mine.before.done
		s.mu.Lock()
		s.next, mine.before = nil, nil
		s.mu.Unlock()
		mine.err = s.file.Sync()
		close(mine.done)
	}
	<-mine.done
	return mine.err
}

func writeAndSync(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}
