package instance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/history"
	"sluice/integrity"
	"sluice/internal/datadir"
	"sluice/metastore"
	"sluice/metering"
	"sluice/storage"
)

// CheckOptions are the options of Check.
type CheckOptions struct {
	// Bytes makes Check read all objects, and compare them with their checksums.
	Bytes bool
	// Repair makes Check correct counts that follow from rows, and delete objects to which nothing
	// refers and that are older than blob.OrphanAge. It changes nothing else. Each repair is exact,
	// beside nodes too, and durable by itself: after an interruption the next call does the rest.
	Repair bool
	// Progress is called when a phase begins, after each step and when it has ended, never
	// concurrently. It may be nil.
	Progress func(Progress)
}

// Checked is Check's result.
type Checked struct {
	Instance string // its id

	Rows, RowsUnchecked int64 // of blobs, extents and sessions; those that have no checksum
	Inline              int64 // extents in the database
	Objects, Bytes      int64 // objects that metadata refer to, and their total size
	BytesRead           int64 // of these, with CheckOptions.Bytes
	Orphans, OrphanSize int64 // objects to which nothing refers, older than blob.OrphanAge, and their total size

	Findings []Finding // the first maxCheckFindings
	Found    int64     // the number of all findings

	Repaired    []string // with CheckOptions.Repair: sentences about the first maxCheckFindings repairs
	Repairs     int64    // the number of all repairs
	NotRepaired []string // repairs that were not tried, or failed, each with the reason

	Skipped []string // checks that were not wanted, or are not possible here, each with the reason
	Failed  []string // checks that failed, each with the reason
}

// Finding is a damage.
type Finding struct {
	Kind FindingKind
	Text string // a line without control characters; ids are cut, because they are secret
}

// FindingKind is the kind of damaged thing.
type FindingKind string

// The kinds of findings.
const (
	DamagedPages  FindingKind = "pages"  // in the database, or its indexes
	DamagedBooks  FindingKind = "books"  // rows and counts contradict each other
	DamagedRow    FindingKind = "row"    // does not match its checksum
	DamagedBody   FindingKind = "body"   // an inline extent
	DamagedObject FindingKind = "object" // is missing, or has another size or other bytes
	DamagedFile   FindingKind = "file"   // a file that the instance needs
	DamagedBlob   FindingKind = "blob"   // a blob that needs damaged bytes or rows
)

const maxCheckFindings = 1000

// Check compares everything that an instance stores with everything else that it stores. It changes
// nothing, and may run beside the instance's nodes: their changes meanwhile are no findings. Its
// memory is bounded whatever the instance has.
//
// With CheckOptions.Repair it makes its findings after the repairs. It then locks the data folder,
// if the instance has a part in it, and returns datadir.ErrInUse if a server runs there. Nodes that
// have no part in a folder may run.
//
// It returns an error only if it could not begin, or if ctx has ended. Other checks that failed are
// in Checked.Failed.
func Check(ctx context.Context, l Location, opt CheckOptions) (_ Checked, err error) {
	if err := checkLocation(l); err != nil {
		return Checked{}, err
	}
	c := checker{progress: newReporter(opt.Progress, nil), lacking: map[metastore.ContentID]bool{}}
	if opt.Repair {
		if err := c.openRepairer(ctx, l); err != nil {
			return Checked{}, err
		}
		if c.repairer != nil {
			defer func() { err = errors.Join(err, c.repairer.Close()) }()
		}
	}
	c.e, err = storage.OpenReader(ctx, l)
	if errors.Is(err, storage.ErrDamaged) {
		c.found.Failed = []string{"everything else: the database cannot be opened"}
		c.found.add(DamagedPages, "it is too damaged to be opened: %v", err)
		return c.found, nil
	}
	if err != nil {
		return Checked{}, err
	}
	defer func() { err = errors.Join(err, c.e.Close()) }()
	for _, part := range []struct {
		name  string
		check func(context.Context) error
	}{
		{"the pages and indexes of the database", c.pages},
		{"the id of the instance", c.identity},
		{"the files of the data folder", func(context.Context) error { return c.folder(l) }},
		{"the checksums of rows", c.rows},
		{"the repairs", c.repair},
		{"the books and counts", c.books},
		{"the bodies in the database", c.bodies},
		{"the objects", c.objects},
		{"the bytes of the objects", func(ctx context.Context) error { return c.bytes(ctx, opt.Bytes) }},
		{"which blobs are damaged", c.blobs},
	} {
		err := part.check(ctx)
		if ctx.Err() != nil {
			return c.found, context.Cause(ctx)
		}
		if err != nil {
			c.found.Failed = append(c.found.Failed, fmt.Sprintf("%s: %v", part.name, err))
		}
	}
	return c.found, nil
}

func (f *Checked) add(kind FindingKind, format string, values ...any) {
	if f.Found++; f.Found <= maxCheckFindings {
		f.Findings = append(f.Findings, Finding{kind, fmt.Sprintf(format, values...)})
	}
}

// checker is a running check.
type checker struct {
	e        *storage.Endpoint
	repairer *storage.Endpoint // nil: nothing is repaired
	progress *reporter

	brokenPages bool // pages or indexes are damaged, or could not be checked
	brokenRows  bool // the same for rows of blobs and extents

	mu      sync.Mutex // for the fields below
	found   Checked
	lacking map[metastore.ContentID]bool // contents with damage, at most maxLacking
	more    bool                         // there are other ones
}

// maxLacking bounds the contents that a check remembers because they are damaged.
const maxLacking = 100_000

func (c *checker) add(kind FindingKind, format string, values ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found.add(kind, format, values...)
}

// damaged adds a finding about a content.
func (c *checker) damaged(content metastore.ContentID, kind FindingKind, format string, values ...any) {
	c.add(kind, format, values...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lacking) < maxLacking {
		c.lacking[content] = true
	} else if !c.lacking[content] {
		c.more = true
	}
}

func (c *checker) identity(ctx context.Context) (err error) {
	if c.found.Instance, err = c.e.SQL.Property(ctx, history.InstanceProperty); err != nil {
		return err
	}
	wrong, err := wrongID(ctx, c.e)
	if wrong != "" {
		c.add(DamagedFile, "%s; if the objects are there, sluice recover writes it anew; otherwise name or mount the right bytes", wrong)
	}
	if err != nil {
		return err
	}
	now, how, holds, err := history.Compare(ctx, c.e.SQL, c.e.Bytes)
	if err == nil && !holds {
		how = "the latest record beside the bytes is of another database"
	}
	if how != "" && now.SetBack == "" {
		c.add(DamagedFile, "%s; sluice recover continues with the instance as it is", how)
	}
	return err
}

// folder checks the files in a data folder that belong to neither the metadata nor the bytes.
func (c *checker) folder(l Location) error {
	if l.Data == "" {
		return nil
	}
	found, err := metering.CheckReturns(filepath.Join(l.Data, datadir.Returns))
	for _, text := range found {
		c.add(DamagedFile, "%s", text)
	}
	if err != nil || l.Shared() {
		return err
	}
	known, err := datadir.TrustOf(l.Data)
	if err == nil && known != datadir.Whole {
		c.found.Skipped = append(c.found.Skipped, "whether the database lacks changes: its file is not the one that meta.db-record names as whole, "+
			"after a copy or if that file is damaged; the next start checks it, and writes meta.db-record anew")
	}
	return err
}

func (c *checker) pages(ctx context.Context) error {
	var last int
	found, unchecked, err := c.e.SQL.CheckPages(ctx, func(done, total int) error {
		if done == 0 {
			c.progress.begin(PhasePages, int64(total))
		}
		c.progress.add(int64(done - last))
		last = done
		return nil
	})
	c.progress.end()
	c.brokenPages = len(found) > 0 || err != nil
	for _, text := range found {
		c.add(DamagedPages, "the database: %s", text)
	}
	if unchecked != "" {
		c.found.Skipped = append(c.found.Skipped, unchecked)
	}
	return err
}

func (c *checker) books(ctx context.Context) error {
	c.progress.begin(PhaseBooks, 1)
	found, total, err := c.e.SQL.AuditAll(ctx)
	if err != nil {
		return err
	}
	for _, text := range found {
		c.add(DamagedBooks, "%s", text)
	}
	c.found.Found += int64(total - len(found))
	c.progress.add(1)
	c.progress.end()
	return nil
}

func (c *checker) rows(ctx context.Context) error {
	c.progress.begin(PhaseRows, 0)
	defer c.progress.end()
	err := c.e.SQL.CheckRows(ctx, func(content metastore.ContentID, known bool, damage string) error {
		c.found.Rows++
		if !known {
			c.found.RowsUnchecked++
		}
		if damage != "" {
			c.damaged(content, DamagedRow, "%s", damage)
			c.brokenRows = c.brokenRows || content != metastore.ContentID{} // which is a session's
		}
		c.progress.add(1)
		return nil
	})
	c.brokenRows = c.brokenRows || err != nil
	return err
}

// bodies checks each body by the statement that reads it, so that no change can come between.
func (c *checker) bodies(ctx context.Context) error {
	const page = 250 // of at most 32 KiB each
	c.progress.begin(PhaseBodies, 0)
	defer c.progress.end()
	for after := (*storage.InlineExtent)(nil); ; {
		list, err := c.e.SQL.InlineBodies(ctx, after, page)
		if err != nil {
			return err
		}
		for _, one := range list {
			if err := integrity.CheckInline(one.Extent); err != nil {
				c.damaged(one.Content, DamagedBody, "content %v: part %d, byte %d: %v", one.Content, one.Part, one.Offset, err)
			}
		}
		c.found.Inline += int64(len(list))
		c.progress.add(int64(len(list)))
		if len(list) < page {
			return nil
		}
		after = &list[page-1]
	}
}

// objects compares the objects that exist with those to which metadata refer.
func (c *checker) objects(ctx context.Context) error {
	total, _, err := c.e.SQL.CountObjects(ctx)
	if err != nil {
		return err
	}
	c.progress.begin(PhaseObjects, total)
	defer c.progress.end()
	old := orphans{checker: c, before: c.e.SQL.Now().Add(-blob.OrphanAge)}
	err = c.e.EachObject(ctx, storage.Comparison{
		Known: func(o storage.Object) error {
			c.found.Objects++
			c.found.Bytes += o.Size
			c.progress.add(1)
			return nil
		},
		Missing: func(o storage.Object, why string) error { return c.missing(ctx, o, why) },
		Longer:  func(o storage.Object) error { return c.longer(ctx, o) },
		Unknown: func(o bytestore.Object, made time.Time) error { return old.add(ctx, o, made) },
	})
	if err != nil {
		return err
	}
	return old.flush(ctx)
}

// missing reports an object that is not there. An object is stored before its row and deleted after
// it: if the row is there after the object was not, the object is lost.
func (c *checker) missing(ctx context.Context, o storage.Object, why string) error {
	there, err := c.e.SQL.HasObject(ctx, o.Object)
	if err == nil && there {
		c.damaged(o.Content, DamagedObject, "object %s of %d bytes, of content %v, %s", o.Object, o.Size, o.Content, why)
	}
	return err
}

// longer reports an object with bytes behind its end, which nothing reads: its blobs are whole.
func (c *checker) longer(ctx context.Context, o storage.Object) error {
	there, err := c.e.SQL.HasObject(ctx, o.Object)
	if err == nil && there {
		c.add(DamagedObject, "object %s of %d bytes, of content %v, is longer: something has appended to it; its blobs can be read; cut it to %d bytes",
			o.Object, o.Size, o.Content, o.Size)
	}
	return err
}

// orphans counts objects to which nothing refers, a page at a time.
type orphans struct {
	*checker

	before time.Time // that are made before
	names  []string
	sizes  map[string]int64
}

func (o *orphans) add(ctx context.Context, object bytestore.Object, made time.Time) error {
	const page = 1000
	if made.After(o.before) {
		return nil // perhaps its commit comes
	}
	if o.sizes == nil {
		o.sizes = map[string]int64{}
	}
	o.names = append(o.names, string(object.Name))
	o.sizes[string(object.Name)] = object.Size
	if len(o.names) < page {
		return nil
	}
	return o.flush(ctx)
}

// flush asks again to which objects on the page nothing refers.
func (o *orphans) flush(ctx context.Context) error {
	free, err := o.e.SQL.Unreferenced(ctx, o.names)
	if errors.Is(err, database.ErrClock) {
		return fmt.Errorf("objects to which nothing refers were not counted: %w", err)
	}
	for _, name := range free {
		o.found.Orphans++
		o.found.OrphanSize += o.sizes[name]
	}
	o.names, o.sizes = o.names[:0], nil
	return err
}

// bytes reads all objects and checks their blocks.
func (c *checker) bytes(ctx context.Context, wanted bool) error {
	if !wanted {
		if c.found.Objects > 0 {
			c.found.Skipped = append(c.found.Skipped, "the bytes of the objects: only their sizes were compared; --read-bytes reads them")
		}
		return nil
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	c.progress.begin(PhaseBytes, c.found.Bytes)
	defer c.progress.end()
	work := make(chan storage.Object)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for o := range work {
				if err := c.readObject(ctx, o); err != nil {
					fail(fmt.Errorf("reading the object %s: %w", o.Object, err))
					return
				}
			}
		})
	}
	rows := storage.ObjectIterator{SQL: c.e.SQL, Live: true}
	err := rows.Next(ctx)
	for ; err == nil && !rows.Done; err = rows.Next(ctx) {
		select {
		case work <- rows.Current:
			continue
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		break
	}
	close(work)
	running.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// readObject checks an object's blocks.
func (c *checker) readObject(ctx context.Context, o storage.Object) error {
	n, err := c.readBlocks(ctx, o)
	c.mu.Lock()
	c.found.BytesRead += n
	c.mu.Unlock()
	c.progress.add(o.Size)
	switch {
	case errors.Is(err, bytestore.ErrNotFound), errors.Is(err, bytestore.ErrTruncated):
		return nil // objects has reported it, or it was freed since
	case !errors.Is(err, integrity.ErrCorrupt):
		return err
	}
	there, err2 := c.e.SQL.HasObject(ctx, o.Object)
	if err2 == nil && there {
		c.damaged(o.Content, DamagedObject, "object %s of content %v: %v", o.Object, o.Content, err)
	}
	return err2
}

// readBlocks reads an object twice if it is not as it should be: it may have changed on its way.
func (c *checker) readBlocks(ctx context.Context, o storage.Object) (n int64, err error) {
	err = twice(func() error {
		n, err = c.readOnce(ctx, o)
		return err
	})
	return n, err
}

func (c *checker) readOnce(ctx context.Context, o storage.Object) (int64, error) {
	r, err := c.e.Bytes.Open(ctx, bytestore.Name(o.Object), 0, o.Size)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, integrity.CheckObject(r, o.Extent))
	return n, errors.Join(err, r.Close())
}

// blobs names the blobs that have damaged contents.
func (c *checker) blobs(ctx context.Context) error {
	if len(c.lacking) == 0 {
		return nil
	}
	err := c.e.EachBlob(ctx, func(b metastore.Blob) {
		if c.lacking[b.Content] {
			c.add(DamagedBlob, "blob %q cannot be read as a whole: its content %v is damaged", b.Path(), b.Content)
		}
	})
	if err == nil && c.more {
		err = fmt.Errorf("more than %d contents are damaged", maxLacking)
	}
	return err
}
