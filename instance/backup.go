package instance

import (
	"bytes"
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
	"sluice/history"
	"sluice/integrity"
	"sluice/internal/task"
	"sluice/storage"
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
	// Again is called when the backup begins again with another snapshot, with the reason.
	Again func(reason string)
}

// BackupResult is Backup's result.
type BackupResult struct {
	*backup.Manifest

	NewObjects, NewBytes int64 // that were stored, with chunks and packs
}

// maxSnapshots is how often Backup begins with another snapshot.
const maxSnapshots = 5

// Backup makes a backup of an instance, whether or not nodes run on it, in a repository, which it
// creates in an empty store. The backup has the metadata of one snapshot, and all objects to which
// they refer. Objects that the repository has are not stored again, so the next backup resumes an
// interrupted one.
//
// While it runs, deleted contents are not freed, except on a full disk. If an object is gone then,
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
	b := &backuper{source: e, repo: repo, opt: opt, progress: newReporter(opt.Progress, opt.Damaged)}
	result.Manifest, err = b.run(ctx)
	result.NewObjects, result.NewBytes = b.objects, b.bytes
	if b.w != nil {
		objects, bytes := b.w.Stored()
		result.NewObjects, result.NewBytes = result.NewObjects+objects, result.NewBytes+bytes
	}
	return result, err
}

// ErrIncomplete is returned by Backup if objects in the instance are damaged or missing. The backup
// has all other objects.
var ErrIncomplete = errors.New("instance: objects are damaged or missing")

// recordTime records that something happened now.
func recordTime(ctx context.Context, properties database.Properties, name string) error {
	now := fmt.Sprint(time.Now().Unix())
	err := properties.SetProperty(ctx, name, now)
	for range 3 { // other processes may replace it at the same time
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

// PermitLargeSweep lets the next sweep of a server delete more than its limit, once, within a day.
func PermitLargeSweep(ctx context.Context, properties database.Properties) error {
	return recordTime(ctx, properties, blob.LargeSweepProperty)
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

// hold keeps garbage until release is called. A full disk permits no hold, and would not respect
// it.
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
		for extended := time.Now(); task.Wait(working, holdEvery) == nil; {
			err := extend()
			if err == nil {
				extended = time.Now()
			} else if time.Since(extended) > holdFor {
				cancel(fmt.Errorf("the instance could not be kept from freeing bytes that the backup needs: %w", err))
			}
		}
	})
	return working, func() error {
		cancel(nil)
		extending.Wait()
		return meta.ReleaseGarbage(context.WithoutCancel(ctx), id)
	}, nil
}

// copySnapshot reads the metadata in one snapshot, and stores it and the objects that it needs.
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

func (b *backuper) readTables(ctx context.Context) error {
	m := &b.w.Manifest
	var table storage.Table
	err := b.source.SQL.Dump(ctx, storage.Dump{
		Begin: func(at time.Time, properties map[string]string) error {
			b.w.Reset()
			id := properties[history.InstanceProperty]
			if id == "" || strings.HasPrefix(id, history.CopyOf("")) {
				return errors.New("the instance is not complete: start a server on it, or finish its restore")
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
	state, err := b.source.SQL.History(ctx)
	m.Generation = state.Generation
	return err
}

// copyObjects stores the objects that the repository lacks.
func (b *backuper) copyObjects(ctx context.Context) error {
	return copyMissing(ctx, b.repo.Objects(ctx, &b.w.Manifest), b.repo.Bytes, func(ctx context.Context, o backup.Object, exists bool) error {
		if exists {
			b.progress.add(o.Size)
			return nil
		}
		err := twice(func() error { return b.copyObject(ctx, o) })
		if errors.Is(err, integrity.ErrCorrupt) {
			return b.lost(ctx, string(o.Name), err, func() (bool, error) { return b.source.SQL.HasObject(ctx, string(o.Name)) })
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
		return fmt.Errorf("%w: %w", integrity.ErrCorrupt, err)
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

// copyBodies stores the inline bodies that the repository lacks.
func (b *backuper) copyBodies(ctx context.Context) error {
	w, err := b.w.Bodies(ctx)
	if err != nil {
		return err
	}
	from := bodyReader{source: b.source, limit: 1}
	err = w.Each(ctx, func(inline []any, kept bool) error {
		o, err := backup.ObjectOf([]any{[]byte{}, inline[3], inline[4]})
		if err != nil {
			return err
		}
		if kept {
			from.limit = 1
			b.progress.add(o.Size)
			return nil
		}
		body, err := from.read(ctx, inline)
		if err != nil {
			return fmt.Errorf("the instance: %w", err)
		}
		if err := checkBody(o, body); err != nil {
			name := fmt.Sprintf("inline body of the content %x", inline[0])
			return b.lost(ctx, name, err, func() (bool, error) { return b.source.SQL.NeedsBody(ctx, inline) })
		}
		b.progress.add(o.Size)
		return w.Add(ctx, inline, body)
	})
	if err != nil {
		return err
	}
	return w.End(ctx)
}

// checkBody returns an error unless an inline body has its extent's size and checksums.
func checkBody(o backup.Object, body []byte) error {
	if int64(len(body)) != o.Size {
		return fmt.Errorf("it has %d bytes, and should have %d", len(body), o.Size)
	}
	return backup.CheckAll(o, bytes.NewReader(body))
}

// bodiesPage is how many inline bodies are read at a time, at most.
const bodiesPage = 256

// bodyReader reads inline bodies by ascending keys. The more are needed one after
// the other, the more it reads at a time.
type bodyReader struct {
	source *storage.Endpoint
	limit  int
	page   []storage.Body
}

// read returns the body for a row of inline extents, or nothing if there is none.
func (r *bodyReader) read(ctx context.Context, inline []any) (_ []byte, err error) {
	for len(r.page) > 0 && backup.CompareKeys(r.page[0].Key, inline) < 0 {
		r.page = r.page[1:]
	}
	if len(r.page) == 0 {
		if r.page, err = r.source.SQL.Bodies(ctx, inline[:3], r.limit); err != nil {
			return nil, err
		}
		r.limit = min(2*r.limit, bodiesPage)
	}
	if len(r.page) == 0 || backup.CompareKeys(r.page[0].Key, inline) != 0 {
		return nil, nil
	}
	return r.page[0].Body, nil
}
