package instance

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/backup"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/internal/storage"
)

// BackupOptions are the options of Backup. The functions are never called concurrently, and may be
// nil.
type BackupOptions struct {
	Program string // version, for the manifest
	// Limit is called before so many bytes are stored, concurrently.
	Limit func(ctx context.Context, bytes int64) error
	// Progress is called when a phase begins, after each object or batch of rows, and when the
	// phase has ended.
	Progress func(Progress)
	// Damaged is called for each object in the instance that is missing or does not match its
	// checksums.
	Damaged func(name string, err error)
	// Again is called when the backup begins again with another snapshot, and says why.
	Again func(reason string)
}

// BackupResult is what Backup has made.
type BackupResult struct {
	*backup.Manifest

	NewObjects, NewBytes int64 // that were stored, with chunks and packs
}

// maxSnapshots is how often Backup begins with another snapshot.
const maxSnapshots = 5

// Backup makes a backup of an instance, whether or not nodes run on it, in a repository, which it
// creates in an empty store. The backup has the metadata of one snapshot, and all objects to which
// they refer. What the repository has is not stored again, so a backup that was interrupted, by
// whatever, is resumed by the next one.
//
// While it runs, what is deleted is not freed, except on a full disk. If an object has gone so,
// Backup begins again with another snapshot, a few times at most.
//
// Each object is compared with its checksums on the way. Objects that are damaged or missing in the
// instance are not stored and are listed in the manifest; Backup returns ErrIncomplete for them
// when the backup is made. Backup records in the instance when it succeeded or failed last.
func Backup(ctx context.Context, source Location, repo *backup.Repository, opt BackupOptions) (result BackupResult, err error) {
	if err := checkLocation(source); err != nil {
		return result, err
	}
	e, err := storage.OpenReader(ctx, source)
	if err != nil {
		return result, fmt.Errorf("the instance: %w", err)
	}
	defer func() {
		name := storage.BackupSucceeded
		if err != nil && !errors.Is(err, ErrIncomplete) {
			name = storage.BackupFailed
		}
		recorded := recordTime(context.WithoutCancel(ctx), e.SQL, name)
		err = errors.Join(err, recorded, e.Close())
	}()
	b := &backuper{source: e, repo: repo, opt: opt, progress: newReporter(CloneOptions{Progress: opt.Progress, Damaged: opt.Damaged})}
	result.Manifest, err = b.run(ctx)
	result.NewObjects, result.NewBytes = b.objects, b.bytes
	if b.w != nil {
		objects, bytes := b.w.Stored()
		result.NewObjects, result.NewBytes = result.NewObjects+objects, result.NewBytes+bytes
	}
	return result, err
}

// ErrIncomplete is returned by Backup if objects in the instance are damaged or missing. The backup
// has all others.
var ErrIncomplete = errors.New("instance: objects are damaged or missing")

// recordTime records that something happened now.
func recordTime(ctx context.Context, properties database.Properties, name string) error {
	now := fmt.Sprint(time.Now().Unix())
	err := properties.SetProperty(ctx, name, now)
	for range 3 { // others may replace it at the same time
		if !errors.Is(err, database.ErrExists) && !errors.Is(err, database.ErrNotFound) {
			return err
		}
		var have string
		if have, err = properties.Property(ctx, name); err == nil {
			err = properties.ReplaceProperty(ctx, name, have, now)
		}
	}
	return err
}

// backuper makes a backup.
type backuper struct {
	source   *storage.Endpoint
	repo     *backup.Repository
	w        *backup.Writer
	opt      BackupOptions
	progress *reporter

	mu             sync.Mutex
	objects, bytes int64    // stored
	damaged        []string // names of objects, and of contents with inline bodies
	gone           int      // that the snapshot needs and the instance does not
}

func (b *backuper) run(ctx context.Context) (_ *backup.Manifest, err error) {
	ctx, b.w, err = b.repo.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.w.Close()) }()
	b.w.Limit = b.opt.Limit
	ctx, release, err := b.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	for attempt := 1; ; attempt++ {
		err = b.copySnapshot(ctx)
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if err != nil {
			return nil, err
		}
		if b.gone == 0 {
			break
		}
		if attempt == maxSnapshots {
			return nil, fmt.Errorf("instance: the backup was given up after %d snapshots, because objects were freed meanwhile: free space on the instance's disk", attempt)
		}
		if b.opt.Again != nil {
			b.opt.Again(fmt.Sprintf("objects that were freed meanwhile, because space was short or an upload ended: %d", b.gone))
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	slices.Sort(b.damaged)
	b.w.Manifest.Damaged = b.damaged
	m, err := b.w.Finish(ctx)
	if err == nil && len(b.damaged) > 0 {
		err = fmt.Errorf("%w: %d; the backup %s has everything else: run sluice check, and delete or heal their blobs", ErrIncomplete, len(b.damaged), m.ID())
	}
	return m, err
}

// The hold of a backup lasts for holdFor and is extended every holdEvery.
const (
	holdFor   = 3 * time.Minute
	holdEvery = time.Minute
)

// hold keeps what becomes garbage until release is called. A full disk permits no hold, and would
// not respect it.
func (b *backuper) hold(ctx context.Context) (_ context.Context, release func() error, err error) {
	id := string(bytestore.NewName(time.Now()))
	meta := b.source.SQL
	extend := func() error {
		_, err := meta.HoldGarbage(ctx, id, holdFor)
		if errors.Is(err, database.ErrNoSpace) {
			return nil
		}
		return err
	}
	if err := extend(); err != nil {
		return nil, nil, fmt.Errorf("the instance: %w", err)
	}
	working, cancel := context.WithCancelCause(ctx)
	var extending sync.WaitGroup
	extending.Go(func() {
		for extended := time.Now(); ; {
			select {
			case <-working.Done():
				return
			case <-time.After(holdEvery):
			}
			err := extend()
			if err == nil {
				extended = time.Now()
			} else if time.Since(extended) > holdFor {
				cancel(fmt.Errorf("the instance could not be kept from freeing what the backup needs: %w", err))
			}
		}
	})
	return working, func() error {
		cancel(nil)
		extending.Wait()
		return meta.ReleaseGarbage(context.WithoutCancel(ctx), id)
	}, nil
}

// copySnapshot reads the metadata in one snapshot, and stores them and what they need.
func (b *backuper) copySnapshot(ctx context.Context) error {
	b.gone, b.damaged = 0, []string{}
	rows, err := b.source.SQL.CountRows(ctx)
	if err != nil {
		return fmt.Errorf("the instance: %w", err)
	}
	b.progress.begin(PhaseMetadata, rows)
	if err := b.readTables(ctx); err != nil {
		return fmt.Errorf("reading the metadata: %w", err)
	}
	b.progress.end()
	if err := b.w.StoreTables(ctx); err != nil {
		return err
	}
	b.progress.begin(PhaseBytes, b.w.Manifest.Bytes)
	if err := b.copyObjects(ctx); err != nil {
		return err
	}
	if err := b.copyBodies(ctx); err != nil {
		return err
	}
	b.progress.end()
	return nil
}

// readTables reads the snapshot.
func (b *backuper) readTables(ctx context.Context) error {
	m := &b.w.Manifest
	var table storage.Table
	err := b.source.SQL.Dump(ctx, storage.Dump{
		Begin: func(at time.Time, properties map[string]string) error {
			b.w.Reset()
			id := properties[blob.InstanceProperty]
			if id == "" || strings.HasPrefix(id, blob.CopyOf("")) {
				return errors.New("the instance is not complete: start a server on it, or finish its clone")
			}
			m.Instance, m.Snapshot, m.Program, m.Schema, m.Properties = id, at.UTC(), b.opt.Program, storage.Schema(), properties
			m.Blobs, m.Objects, m.Bytes, m.Damaged = 0, 0, 0, []string{}
			return nil
		},
		Table: func(t storage.Table) error {
			table = t
			return b.w.Table(t.Name, t.Columns, t.Key)
		},
		Rows: func(rows [][]any) error {
			switch table.Name {
			case "blobs":
				m.Blobs += int64(len(rows))
			case storage.ObjectsTable, storage.InlineTable:
				size := slices.Index(table.Columns, "size")
				for _, row := range rows {
					n, _ := row[size].(int64)
					m.Bytes += n
				}
			}
			if table.Name == storage.ObjectsTable {
				m.Objects += int64(len(rows))
			}
			b.progress.add(int64(len(rows)))
			return b.w.Rows(rows)
		},
	})
	if err != nil {
		return err
	}
	if err := b.w.EndTables(); err != nil {
		return err
	}
	past, err := b.source.SQL.Past(ctx)
	m.Generation = past.Generation
	return err
}

// copyObjects stores the objects that the repository lacks.
func (b *backuper) copyObjects(ctx context.Context) error {
	return copyMissing(ctx, b.repo.Objects(ctx, &b.w.Manifest), b.repo.Bytes, func(ctx context.Context, o backup.Object, exists bool) error {
		if exists {
			b.progress.add(o.Size)
			return nil
		}
		err := b.copyObject(ctx, o)
		if errors.Is(err, blob.ErrCorrupt) {
			return b.lost(ctx, string(o.Name), err, func() (bool, error) { return b.source.SQL.NeedsObject(ctx, string(o.Name)) })
		}
		if err == nil {
			b.mu.Lock()
			b.objects++
			b.bytes += o.Size
			b.mu.Unlock()
			b.progress.add(o.Size)
		}
		return err
	})
}

func (b *backuper) copyObject(ctx context.Context, o backup.Object) error {
	r, err := b.source.Bytes.Open(ctx, o.Name, 0, o.Size)
	if errors.Is(err, bytestore.ErrNotFound) || errors.Is(err, bytestore.ErrTruncated) {
		return fmt.Errorf("%w: %w", blob.ErrCorrupt, err)
	}
	if err != nil {
		return err
	}
	return errors.Join(b.w.Put(ctx, o.Name, o.Check(r), o.Size), r.Close())
}

// lost records that something which the snapshot needs is not as it should be: it is damaged if the
// instance needs it still.
func (b *backuper) lost(ctx context.Context, name string, why error, needed func() (bool, error)) error {
	is, err := needed()
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !is {
		b.gone++
		return nil
	}
	b.damaged = append(b.damaged, name)
	b.progress.damaged(name, why)
	return ctx.Err()
}

// bodiesPage is how many inline bodies are read at a time.
const bodiesPage = 256

// copyBodies stores the inline bodies that the repository lacks. It merges the keys in the snapshot
// with the bodies that exist.
func (b *backuper) copyBodies(ctx context.Context) error {
	b.w.BeginBodies(ctx)
	var page []storage.Body
	err := b.repo.Rows(ctx, b.w.Manifest.Table(storage.InlineTable), func(rows [][]any) error {
		for _, row := range rows {
			key := row[:3]
			for len(page) > 0 && compareKeys(page[0].Key, key) < 0 {
				page = page[1:]
			}
			if len(page) == 0 {
				var err error
				if page, err = b.source.SQL.Bodies(ctx, key, bodiesPage); err != nil {
					return fmt.Errorf("the instance: %w", err)
				}
			}
			if err := b.copyBody(ctx, row, page); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return b.w.EndBodies(ctx)
}

// copyBody stores the body for a row of inline extents, if it is the page's first.
func (b *backuper) copyBody(ctx context.Context, row []any, page []storage.Body) error {
	o, err := backup.ObjectOf([]any{[]byte{}, row[3], row[4]})
	if err != nil {
		return err
	}
	key := row[:3]
	name := fmt.Sprintf("inline body of the content %x", key[0])
	needed := func() (bool, error) { return b.source.SQL.NeedsBody(ctx, key) }
	if len(page) == 0 || compareKeys(page[0].Key, key) != 0 {
		return b.lost(ctx, name, errors.New("it is missing"), needed)
	}
	body := page[0].Body
	if err := backup.CheckAll(o, bytes.NewReader(body)); err != nil {
		return b.lost(ctx, name, err, needed)
	}
	b.progress.add(o.Size)
	return b.w.Body(ctx, key, body)
}

// compareKeys compares the keys of two extents: content, part and off.
func compareKeys(a, b []any) int {
	return cmp.Or(bytes.Compare(contentIn(a), contentIn(b)), cmp.Compare(numberIn(a, 1), numberIn(b, 1)), cmp.Compare(numberIn(a, 2), numberIn(b, 2)))
}

func contentIn(key []any) []byte { content, _ := key[0].([]byte); return content }

func numberIn(key []any, i int) int64 { n, _ := key[i].(int64); return n }
