package instance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"sluice/access/actions"
	"sluice/backup"
	"sluice/bytestore"
	"sluice/database"
	"sluice/history"
	"sluice/integrity"
	"sluice/internal/task"
	"sluice/storage"
)

// RestoreOptions are the options of Restore. The functions are never called concurrently, and may
// be nil.
type RestoreOptions struct {
	// Account restores the blobs of one account only, and Prefix those with names that begin so.
	// The result is a new instance with these blobs, without keys, sessions and channels.
	Account, Prefix string
	// Progress is called when a phase begins, after each object or batch of rows, and when the
	// phase has ended.
	Progress func(Progress)
	// Damaged is called for each object in the backup that is missing or does not match its
	// checksums.
	Damaged func(name string, err error)
}

// RestoreResult is Restore's result.
type RestoreResult struct {
	ID         string // the instance's
	Generation int64
	Existed    bool // the instance is there already; the counts are 0
	Blobs      int64
	Objects    int64
	Bytes      int64
	Lacking    int64 // objects that the backup lacks, because the instance did
	Returned   Returned
}

// Restore makes an instance of a backup at target, which must be empty or contain the data of an
// interrupted Restore of this backup. The instance has the id that was backed up, and begins its
// next generation: only one of them should be served afterwards. A backup can be restored to
// another kind of database and of byte store than it was made of.
//
// All objects, chunks and packs are compared with their checksums. Restore returns
// backup.ErrDamaged, and completes nothing, if one is damaged or missing. It holds the nodes' lease
// on the target's database.
func Restore(ctx context.Context, repo *backup.Repository, m *backup.Manifest, target Location, opt RestoreOptions) (result RestoreResult, err error) {
	if err := checkLocation(target); err != nil {
		return result, fmt.Errorf("the target: %w", err)
	}
	if err := checkSchema(m); err != nil {
		return result, err
	}
	r := &restorer{repo: repo, manifest: m, location: target, part: selection{account: opt.Account, prefix: opt.Prefix}}
	r.progress, r.id = newReporter(opt.Progress, opt.Damaged), m.Instance
	if r.part.partial() {
		sum := sha256.Sum256([]byte(m.ID() + "\x00" + opt.Account + "\x00" + opt.Prefix))
		r.id = hex.EncodeToString(sum[:])[:len(m.Instance)]
	}
	defer func() { err = errors.Join(err, r.close()) }()
	ctx, existed, err := r.openTarget(ctx)
	if err != nil {
		return result, err
	}
	result = RestoreResult{ID: r.id, Existed: existed}
	if existed {
		return result, r.target.Bytes.Delete(ctx, history.CopyObject)
	}
	err = r.load(ctx, &result)
	if err == nil {
		err = r.complete(ctx, &result)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return result, err
}

// load stores the backup's objects and rows in the target.
func (r *restorer) load(ctx context.Context, result *RestoreResult) error {
	if err := r.part.choose(ctx, r.repo, r.manifest); err != nil {
		return err
	}
	r.progress.begin(PhaseBytes, r.manifest.Bytes)
	if err := r.restoreObjects(ctx, result); err != nil {
		return err
	}
	r.progress.end()
	r.progress.begin(PhaseMetadata, r.rows())
	if err := r.restoreTables(ctx, result); err != nil {
		return fmt.Errorf("restoring the metadata: %w", err)
	}
	r.progress.end()
	return nil
}

// complete makes the target the instance.
func (r *restorer) complete(ctx context.Context, result *RestoreResult) error {
	if err := r.setProperties(ctx); err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	var err error
	if result.Generation, err = r.beginGeneration(ctx); err == nil {
		result.Returned, err = returned(ctx, r.target.SQL)
	}
	if err == nil {
		err = r.pauseWebhooks(ctx, result)
	}
	if err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	return r.publish(ctx)
}

// pauseWebhooks keeps a copy of an instance from delivering beside the original.
func (r *restorer) pauseWebhooks(ctx context.Context, result *RestoreResult) error {
	list, err := r.target.SQL.ListWebhooks(ctx, "", 1)
	if err != nil || len(list) == 0 {
		return err
	}
	result.Returned.Waiting = append(result.Returned.Waiting, task.Webhooks)
	_, err = r.target.SQL.ChangeTask(ctx, string(task.Webhooks), func(now time.Time, t *database.Task) (*actions.Act, error) {
		t.Paused, t.Reason = now, r.reason()
		return nil, nil
	})
	return err
}

// reason returns why tasks wait.
func (r *restorer) reason() string {
	return "the instance was restored from a backup of " + r.manifest.Snapshot.UTC().Format(time.RFC3339)
}

// rows returns how many rows the backup has.
func (r *restorer) rows() (sum int64) {
	for _, t := range r.manifest.Tables {
		sum += t.Rows
	}
	return sum
}

// restoreObjects stores the objects that the target lacks.
func (r *restorer) restoreObjects(ctx context.Context, result *RestoreResult) (err error) {
	lacking := map[string]bool{}
	for _, name := range r.manifest.Damaged {
		lacking[name] = true
	}
	objects := func(yield func(backup.Object, error) bool) {
		for o, err := range r.repo.Objects(ctx, r.manifest) {
			switch {
			case err == nil && !r.part.needs(string(o.Name)):
				continue
			case err == nil && lacking[string(o.Name)]:
				result.Lacking++
				continue
			case err == nil:
				result.Objects++
				result.Bytes += o.Size
			}
			if !yield(o, err) {
				return
			}
		}
	}
	batch := bytestore.NewBatch(r.target.Bytes)
	defer func() { err = errors.Join(err, batch.Close()) }()
	err = copyMissing(ctx, iter.Seq2[backup.Object, error](objects), r.target.Bytes, func(ctx context.Context, o backup.Object, exists bool) error {
		if !exists {
			if err := r.restoreObject(ctx, batch, o); err != nil {
				return err
			}
		}
		r.progress.add(o.Size)
		return nil
	})
	if err != nil {
		return err
	}
	return batch.Commit(ctx)
}

func (r *restorer) restoreObject(ctx context.Context, batch bytestore.Batch, o backup.Object) error {
	from, err := r.repo.Bytes.Open(ctx, o.Name, 0, o.Size)
	if err == nil {
		err = errors.Join(batch.Put(ctx, o.Name, o.Check(from), o.Size), from.Close())
	}
	switch {
	case errors.Is(err, bytestore.ErrNotFound), errors.Is(err, bytestore.ErrTruncated), errors.Is(err, integrity.ErrCorrupt):
		r.progress.damaged(string(o.Name), err)
		return fmt.Errorf("%w: %w: name an older backup, or restore accounts or prefixes that do not need it", backup.ErrDamaged, err)
	}
	return err
}

// loadPage is how many rows are inserted in one transaction.
const loadPage = 1000

// restoreTables replaces the target's rows.
func (r *restorer) restoreTables(ctx context.Context, result *RestoreResult) error {
	sql := r.target.SQL
	if err := sql.Unload(ctx, r.tables()); err != nil {
		return err
	}
	for i := range r.manifest.Tables {
		t := &r.manifest.Tables[i]
		load := loadedTable(t)
		switch t.Name {
		case storage.ObjectsTable, storage.InlineTable, backup.BodiesTable:
			continue
		}
		err := rowsOf(ctx, r.repo, r.manifest, t, func(rows [][]any) error {
			rows = r.part.rows(t, rows)
			if t.Name == "blobs" {
				result.Blobs += int64(len(rows))
			}
			for page := range slices.Chunk(rows, loadPage) {
				if err := sql.Load(ctx, load, page); err != nil {
					return err
				}
				r.progress.add(int64(len(page)))
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		if t.Name == "shares" && r.part.partial() {
			if err := sql.Load(ctx, load, r.part.shares(load.Columns)); err != nil {
				return err
			}
		}
	}
	return r.restoreBodies(ctx)
}

// tables returns those tables in the backup with rows that replace the target's.
func (r *restorer) tables() (list []storage.Table) {
	for _, t := range r.manifest.Tables {
		switch t.Name {
		case storage.ObjectsTable, storage.InlineTable, backup.BodiesTable:
		default:
			if r.part.replaces(t.Name) {
				list = append(list, loadedTable(&t))
			}
		}
	}
	return list
}

func (r *restorer) restoreBodies(ctx context.Context) error {
	return r.repo.Bodies(ctx, r.manifest, func(list []backup.Body) error {
		var bodies []storage.Body
		for _, b := range list {
			if content, _ := b.Key[0].([]byte); r.part.has(content) {
				bodies = append(bodies, storage.Body{Key: b.Key, Body: b.Body})
			}
		}
		for page := range slices.Chunk(bodies, bodiesPage) {
			if err := r.target.SQL.LoadBodies(ctx, page); err != nil {
				return err
			}
			r.progress.add(int64(len(page)))
		}
		return nil
	})
}

// setProperties sets the properties that describe the instance, or the clock of locks if a part of
// it is restored.
func (r *restorer) setProperties(ctx context.Context) error {
	for name, value := range r.manifest.Properties {
		if slices.Contains(locationProperties, name) || r.part.partial() && name != database.LocksProperty {
			continue
		}
		if err := setProperty(ctx, r.target.Meta, name, value); err != nil {
			return err
		}
	}
	return nil
}

// beginGeneration begins the generation after the backup's.
func (r *restorer) beginGeneration(ctx context.Context) (int64, error) {
	now, err := r.target.SQL.History(ctx)
	if err != nil {
		return 0, err
	}
	next := max(now.Generation, r.manifest.Generation) + 1
	return next, r.target.SQL.BeginGeneration(ctx, now.Generation, next, 0, database.KeptObjects{}, r.reason())
}
