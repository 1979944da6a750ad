package blob

import (
	"context"
	"errors"
	"time"

	"sluice/commit"
	"sluice/database"
	"sluice/integrity"
	"sluice/internal/task"
	"sluice/metastore"
)

// The background task that computes roots uses one processor at most. While requests are in
// progress, it works for one part in busyShare of the time, or one in lateShare once a content has
// waited for longer than lateAfter: requests in bursts are not slowed down, and a busy service
// still gets its roots.
const (
	rootsEvery = 2 * time.Second
	busyShare  = 50
	lateShare  = 4
	lateAfter  = 10 * time.Minute

	// busyFor is for how long requests count as in progress after they were: short ones are often
	// not seen.
	busyFor = time.Second

	rootsPage = 32 // contents in one transaction
	rootsSave = time.Second
)

// rooting is a run.
type rooting struct {
	s     *Service
	w     commit.Writer
	known []metastore.ContentRoot // roots that are not stored yet
	saved time.Time
	began time.Time                     // when the last pause ended
	busy  time.Time                     // when requests were seen in progress
	reads time.Duration                 // that were spent on reading since
	next  map[metastore.ContentID]int64 // where large contents go on: the next row
	done  int64
}

// ComputeRoots computes the trees of all contents that have none, and returns how many.
// After each row of a large content it turns to the rest. It goes on with a content where an
// earlier run has ended, on whatever node.
func (s *Service) ComputeRoots(ctx context.Context) (contents int64, err error) {
	x := rooting{s: s, w: commit.Writer{Alone: true}, saved: time.Now(), began: time.Now(), next: map[metastore.ContentID]int64{}}
	var failed task.Failures
	for left := true; left && err == nil; {
		left, err = x.pass(ctx, &failed)
	}
	return x.done, errors.Join(err, failed.Err(), x.save(ctx))
}

// pass takes a step with each content, and reports whether some need another one.
func (x *rooting) pass(ctx context.Context, failed *task.Failures) (left bool, err error) {
	var after metastore.ContentID
	for {
		page, err := x.s.meta.Treeless(ctx, after, rootsPage)
		if err != nil || len(page) == 0 {
			return left, errors.Join(err, x.save(ctx)) // before the next pass lists them
		}
		after = page[len(page)-1]
		for _, content := range x.s.rootless.due(page, x.s.meta.Now()) {
			more, err := x.step(ctx, content)
			switch {
			case errors.Is(err, database.ErrNotFound), errors.Is(err, ErrCut):
				err = nil // it was removed meanwhile
			case isOfContent(err):
				x.s.rootless.postpone(content, x.s.meta.Now())
				failed.Add(err)
				err = nil
			}
			if left = left || more; err != nil {
				return false, err
			}
		}
	}
}

// isOfContent reports whether an error is about one content, and another may have none.
func isOfContent(err error) bool {
	return errors.Is(err, integrity.ErrCorrupt) || errors.Is(err, database.ErrDamagedRow) || errors.Is(err, commit.ErrRows)
}

// step computes the content's tree or, if it is large, its next row. It reports whether there are
// more rows.
func (x *rooting) step(ctx context.Context, content metastore.ContentID) (more bool, err error) {
	c, err := x.s.open(func() (metastore.Blob, []metastore.Extent, error) { return x.s.meta.OpenTreeless(ctx, content) })
	if err != nil {
		return false, err
	}
	defer c.Close()
	c.bytes = x.s.opt.Uncached
	row := int64(0)
	if c.Size > commit.RowSize {
		if row, err = x.nextRow(ctx, c); err != nil {
			return false, err
		}
	}
	end := min((row+1)*commit.RowSize, c.Size)
	roots, err := x.read(ctx, c, row*commit.RowSize, end)
	if err != nil {
		return false, err
	}
	known := metastore.ContentRoot{Content: content, Root: roots.Root[:], Tree: metastore.TreeInRows}
	if c.Size <= commit.SmallSize {
		beside := roots.Chunksets[0].Beside()
		known.Tree = beside[:]
		return false, x.add(ctx, known)
	}
	err = x.store(ctx, content, commit.Row{Index: row, Hashes: commit.RowOf(roots.Chunksets)})
	if err == nil && c.Size > commit.RowSize {
		if x.next[content] = row + 1; end < c.Size {
			return true, nil
		}
		var root commit.Root
		root, err = commit.Build(c.Size, x.s.treeRows(ctx, content), func(r commit.Row) error { return x.store(ctx, content, r) })
		known.Root = root[:]
	}
	if err != nil {
		return false, err
	}
	return false, x.add(ctx, known)
}

// nextRow returns the first row of level 0 that a content does not have.
func (x *rooting) nextRow(ctx context.Context, c *Content) (row int64, err error) {
	row, known := x.next[c.Content]
	for !known && err == nil && (row+1)*commit.RowSize < c.Size {
		if _, err = x.s.meta.TreeRow(ctx, c.Content, 0, row); err == nil {
			row++
		}
	}
	if errors.Is(err, database.ErrNotFound) {
		err = nil
	}
	return row, err
}

// read reads a content's bytes, a chunkset at a time, and returns their roots.
func (x *rooting) read(ctx context.Context, c *Content, off, end int64) (roots commit.Commitment, err error) {
	x.w = commit.Writer{Alone: true} // an earlier read may have failed
	for off < end {
		began, n := time.Now(), min(commit.ChunksetSize, end-off)
		if _, err := c.WriteRange(ctx, x, off, n); err != nil {
			return roots, err
		}
		x.reads += time.Since(began)
		if off += n; off == end {
			roots = x.w.Commitment()
		}
		if err := x.pause(ctx, c); err != nil {
			return roots, err
		}
	}
	return roots, nil
}

// Write adds a content's bytes.
func (x *rooting) Write(p []byte) (n int, err error) {
	began := time.Now()
	n, err = x.w.Write(p)
	x.reads -= time.Since(began) // during which it does not read
	return n, err
}

// pause lets requests pass after some work. Reading does not count, as the bytes may come from
// another machine.
func (x *rooting) pause(ctx context.Context, c *Content) error {
	worked, share := time.Since(x.began)-x.reads, time.Duration(busyShare)
	if x.s.meta.Now().Sub(c.Modified) > lateAfter {
		share = lateShare
	}
	err := ctx.Err()
	if x.s.opt.Busy() {
		x.busy = time.Now()
	}
	if time.Since(x.busy) < busyFor {
		err = task.Wait(ctx, (share-1)*worked)
	}
	x.began, x.reads = time.Now(), 0
	return err
}

// add adds roots, and stores all if it is time.
func (x *rooting) add(ctx context.Context, known metastore.ContentRoot) error {
	x.known = append(x.known, known)
	if len(x.known) < rootsPage && time.Since(x.saved) < rootsSave {
		return nil
	}
	return x.save(ctx)
}

func (x *rooting) save(ctx context.Context) error {
	if len(x.known) == 0 {
		return nil
	}
	err := x.s.meta.SetRoots(ctx, x.known)
	x.done += int64(len(x.known))
	x.known, x.saved = x.known[:0], time.Now()
	return err
}

func (x *rooting) store(ctx context.Context, content metastore.ContentID, r commit.Row) error {
	return x.s.meta.AddTreeRow(ctx, content, metastore.TreeRow(r))
}

// treeRows returns the function that loads a content's rows.
func (s *Service) treeRows(ctx context.Context, content metastore.ContentID) func(level int, index int64) ([]byte, error) {
	return func(level int, index int64) ([]byte, error) { return s.meta.TreeRow(ctx, content, level, index) }
}

// RootOf returns a blob's root, and whether it is known yet.
func RootOf(b *metastore.Blob) (root commit.Root, known bool) {
	switch {
	case b.Mark:
		return root, false
	case b.Size == 0:
		return commit.Empty(), true
	case len(b.Root) != len(root):
		return root, false
	}
	return commit.Root(b.Root), true
}
