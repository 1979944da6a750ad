package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/backup"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/history"
	"sluice/internal/lease"
	"sluice/storage"
)

// restorer restores a backup: first the objects, then the rows, and when both are complete, the
// instance's id. Before anything else is stored in the target, both its parts are marked with that
// id: the bytes by the object history.CopyObject, the metadata by history.CopyOf as its property
// history.InstanceProperty.
type restorer struct {
	repo     *backup.Repository
	manifest *backup.Manifest
	part     selection
	progress *reporter

	id       string   // the instance's
	location Location // the target's
	target   *storage.Endpoint
	marked   bool // this run created history.CopyObject
	cleanup  []func() error
}

// openTarget opens and marks the target, and waits for the lease of a database that several nodes
// can use. It marks the target before anything is created there, and before the wait, which takes
// seconds. It reports whether the target is the restored instance. The context that it returns ends
// if the lease is lost.
func (r *restorer) openTarget(ctx context.Context) (_ context.Context, existed bool, err error) {
	r.target, err = storage.OpenEndpoint(ctx, r.location, false, r.markBytes)
	if err != nil {
		if errors.Is(err, database.ErrOlder) {
			err = fmt.Errorf("it must be empty, or have an interrupted restore's data from this version; it is not changed: %w", err)
		}
		return ctx, false, fmt.Errorf("the target: %w", err)
	}
	r.cleanup = append(r.cleanup, r.target.Close)
	if existed, err = r.mark(ctx); err != nil || !r.location.Shared() {
		return ctx, existed, err
	}
	held, release, err := lease.Hold(ctx, r.target.Meta, lease.Background)
	if err != nil {
		return ctx, false, fmt.Errorf("the target: %w", err)
	}
	r.cleanup = append(r.cleanup, release)
	return held, existed, nil
}

// close releases the lease and closes the target.
func (r *restorer) close() error {
	var errs []error
	for _, fn := range slices.Backward(r.cleanup) {
		errs = append(errs, fn())
	}
	return errors.Join(errs...)
}

// mark marks the target's metadata after its bytes were marked, or checks that it is marked. It
// reports whether the target is the restored instance. If it returns an error, it removes the mark
// that this run has put on the bytes, unless the outcome is unknown.
func (r *restorer) mark(ctx context.Context) (existed bool, err error) {
	existed, err = r.markMeta(ctx)
	if err == nil {
		return existed, nil
	}
	if r.marked && !errors.Is(err, database.ErrUnknownOutcome) {
		err = errors.Join(err, r.target.Bytes.Delete(ctx, history.CopyObject))
	}
	return false, fmt.Errorf("the target: %w", err)
}

// locationProperties are the properties that describe a database, its bytes or its machine's clock,
// and not the instance. Backups of earlier versions have "migration", "epoch" and "commits".
var locationProperties = []string{history.InstanceProperty, history.CandidateProperty, storage.BackupSucceeded, storage.BackupFailed,
	database.TimeProperty,
	"migration", "epoch", "commits",
	blob.LargeSweepProperty}

// setProperty sets a property that may exist with the same value.
func setProperty(ctx context.Context, properties database.Properties, name, value string) error {
	err := properties.SetProperty(ctx, name, value)
	if !errors.Is(err, database.ErrExists) {
		return err
	}
	have, err := properties.Property(ctx, name)
	if err != nil || have == value {
		return err
	}
	return fmt.Errorf("it has another value of the property %s: %w", name, database.ErrExists)
}

// publish replaces the markers by the instance's id. The metadata comes last: with its id the
// target is the instance.
func (r *restorer) publish(ctx context.Context) error {
	err := r.target.Bytes.Put(ctx, history.InstanceObject, strings.NewReader(r.id), int64(len(r.id)))
	if err != nil && !errors.Is(err, bytestore.ErrExists) {
		return err
	}
	if other, err := history.ReadID(ctx, r.target.Bytes.Open, history.InstanceObject); err != nil || other != r.id {
		return errors.Join(err, fmt.Errorf("the bytes of the target now belong to instance %s: restore to an empty place", other))
	}
	if err := r.target.Meta.ReplaceProperty(ctx, history.InstanceProperty, history.CopyOf(r.id), r.id); err != nil {
		return err
	}
	if err := r.target.Bytes.Delete(ctx, history.CopyObject); err != nil {
		return err
	}
	_, err = history.Bind(ctx, r.target.Meta, r.target.Bytes)
	return err
}
