package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/internal/lease"
	"sluice/internal/storage"
)

// CloneResult is what Clone has copied.
type CloneResult struct {
	ID             string // the instance's
	Existed        bool   // the target was this instance already; the counts are 0
	Objects, Bytes int64
	Rows           int64 // in the metadata
}

// Clone copies the instance at source to target, which must be empty or contain an unfinished clone
// from the same source. Objects that the target already has are not copied again, so a clone that
// was interrupted can be resumed by the same call. If the clone was finished before, Clone does
// nothing. The clone has the source's id; only one of them should be served afterwards.
//
// No node may run on the source or on the target. Clone locks their data folders, and holds the
// nodes' lease on their databases: it returns an error if a node is running, or if one is started
// during the clone. To rule out nodes takes up to half a minute for each database.
//
// Until the clone is complete its target is marked, so that no node serves it: blob.Bind returns
// blob.ErrUnfinishedCopy. Clone verifies the checksums of all objects, and stores none that does
// not match. It returns an error if the source has damaged or missing objects, after it has copied
// all others.
func Clone(ctx context.Context, source, target Location, opt CloneOptions) (result CloneResult, err error) {
	if err := checkLocations(source, target); err != nil {
		return result, err
	}
	c := &cloner{progress: newReporter(opt)}
	defer func() { err = errors.Join(err, c.close()) }()
	if ctx, err = c.openSource(ctx, source); err != nil {
		return result, err
	}
	ctx, existed, err := c.openTarget(ctx, target)
	if err != nil {
		return result, err
	}
	result, err = c.finish(ctx, existed)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return result, cause
	}
	return result, err
}

// checkLocations returns an error unless both locations are valid and have nothing in common.
func checkLocations(source, target Location) error {
	if err := checkLocation(source); err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	if err := checkLocation(target); err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	if source.Overlaps(target) {
		return errors.New("the source and the target have their metadata or their bytes in the same place: an instance is cloned as a whole")
	}
	return nil
}

// cloner copies an instance: first the bytes, then the metadata, and when both are complete, the
// instance's id. Before anything else is stored in the target, both its parts are marked with the
// source's id: the bytes by the object blob.CopyObject, the metadata by blob.CopyOf as its property
// blob.InstanceProperty.
type cloner struct {
	source, target *storage.Endpoint
	id             string // the source's
	marked         bool   // this run created blob.CopyObject
	progress       *reporter
	cleanup        []func() error
}

// openSource opens the source, waits for its lease and identifies it. The context that it returns
// ends if the lease is lost.
func (c *cloner) openSource(ctx context.Context, l Location) (_ context.Context, err error) {
	if c.source, err = storage.OpenEndpoint(ctx, l, true, nil); err != nil {
		return nil, fmt.Errorf("the source: %w", err)
	}
	c.cleanup = append(c.cleanup, c.source.Close)
	if ctx, err = c.hold(ctx, "source", l, c.source); err != nil {
		return nil, err
	}
	return ctx, c.identify(ctx)
}

// openTarget opens and marks the target, and waits for its lease. It reports whether the target is
// the finished clone. The context that it returns ends if the lease is lost.
func (c *cloner) openTarget(ctx context.Context, l Location) (_ context.Context, existed bool, err error) {
	c.target, err = storage.OpenEndpoint(ctx, l, false, c.markBytes)
	return c.takeTarget(ctx, l, err)
}

// takeTarget marks the target that was opened, unless err says why it was not, and waits for its
// lease. It is marked before anything is created there, and before the wait, which takes seconds.
func (c *cloner) takeTarget(ctx context.Context, l Location, err error) (_ context.Context, existed bool, _ error) {
	if err != nil {
		if errors.Is(err, database.ErrOlder) {
			err = fmt.Errorf("it must be empty, or an unfinished copy that this version began; it is not changed: %w", err)
		}
		return nil, false, fmt.Errorf("the target: %w", err)
	}
	c.cleanup = append(c.cleanup, c.target.Close)
	if existed, err = c.mark(ctx); err != nil {
		return nil, false, err
	}
	ctx, err = c.hold(ctx, "target", l, c.target)
	return ctx, existed, err
}

// hold holds the nodes' lease on a database that several can use.
func (c *cloner) hold(ctx context.Context, name string, l Location, e *storage.Endpoint) (context.Context, error) {
	if !l.Shared() {
		return ctx, nil
	}
	held, release, err := lease.Hold(ctx, e.Meta, lease.Background)
	if err != nil {
		return nil, fmt.Errorf("the %s: %w", name, err)
	}
	c.cleanup = append(c.cleanup, release)
	return held, nil
}

// close releases the leases and closes the endpoints.
func (c *cloner) close() error {
	var errs []error
	for _, fn := range slices.Backward(c.cleanup) {
		errs = append(errs, fn())
	}
	return errors.Join(errs...)
}

// identify reads the source's id.
func (c *cloner) identify(ctx context.Context) (err error) {
	if c.id, err = blob.Bind(ctx, c.source.Meta, c.source.Bytes); err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	return nil
}

// mark marks the target's metadata after its bytes were marked, or checks that it is marked. It
// reports whether the target is the finished clone. If it returns an error, it removes the mark
// that this run has put on the bytes, unless the outcome is unknown.
func (c *cloner) mark(ctx context.Context) (existed bool, err error) {
	existed, err = c.markMeta(ctx)
	if err == nil {
		return existed, nil
	}
	if c.marked && !errors.Is(err, database.ErrUnknownOutcome) {
		err = errors.Join(err, c.target.Bytes.Delete(ctx, blob.CopyObject))
	}
	return false, fmt.Errorf("the target: %w", err)
}

// finish turns a marked target into the instance. If existed is set, the target is the instance
// already.
func (c *cloner) finish(ctx context.Context, existed bool) (CloneResult, error) {
	result := CloneResult{ID: c.id, Existed: existed}
	if existed {
		return result, c.target.Bytes.Delete(ctx, blob.CopyObject)
	}
	var err error
	if result.Objects, result.Bytes, err = c.copyObjects(ctx); err != nil {
		return result, err
	}
	if result.Rows, err = c.copyMeta(ctx); err != nil {
		return result, err
	}
	if err := c.publish(ctx); err != nil {
		return result, fmt.Errorf("the target: %w", err)
	}
	return result, nil
}

// copyMeta copies the metadata and returns the number of its rows.
func (c *cloner) copyMeta(ctx context.Context) (int64, error) {
	rows, err := c.source.SQL.CountRows(ctx)
	if err != nil {
		return 0, fmt.Errorf("the source: %w", err)
	}
	c.progress.begin(PhaseMetadata, rows)
	if err := c.target.SQL.CopyFrom(ctx, c.source.SQL, c.progress.add); err != nil {
		return 0, fmt.Errorf("copying the metadata: %w", err)
	}
	c.progress.end()
	properties, err := c.source.SQL.Properties(ctx)
	if err != nil {
		return 0, fmt.Errorf("the source: %w", err)
	}
	for name, value := range properties {
		if slices.Contains(locationProperties, name) {
			continue
		}
		if err := setProperty(ctx, c.target.Meta, name, value); err != nil {
			return 0, fmt.Errorf("the target: %w", err)
		}
	}
	return rows, nil
}

// locationProperties are the properties that describe a database or its bytes, and not the
// instance. Earlier versions left "migration" in the databases that they copied.
var locationProperties = []string{blob.InstanceProperty, blob.EpochProperty, blob.CandidateProperty, storage.BackupSucceeded, storage.BackupFailed, "migration"}

// setProperty sets a property that may exist with the same value; only the count of commits may
// have grown since an attempt that was interrupted.
func setProperty(ctx context.Context, properties database.Properties, name, value string) error {
	err := properties.SetProperty(ctx, name, value)
	if !errors.Is(err, database.ErrExists) {
		return err
	}
	have, err := properties.Property(ctx, name)
	if err != nil || have == value {
		return err
	}
	if name == blob.CommitsProperty {
		return properties.ReplaceProperty(ctx, name, have, value)
	}
	return fmt.Errorf("it has another value of the property %s: %w", name, database.ErrExists)
}

// publish replaces the markers by the instance's id. The metadata comes last: with its id the
// target is the instance.
func (c *cloner) publish(ctx context.Context) error {
	err := c.target.Bytes.Put(ctx, blob.InstanceObject, strings.NewReader(c.id), int64(len(c.id)))
	if err != nil && !errors.Is(err, bytestore.ErrExists) {
		return err
	}
	if other, err := blob.ReadID(ctx, c.target.Bytes, blob.InstanceObject); err != nil || other != c.id {
		return errors.Join(err, fmt.Errorf("the bytes of the target now belong to instance %s: clone to an empty target", other))
	}
	if err := c.target.Meta.ReplaceProperty(ctx, blob.InstanceProperty, blob.CopyOf(c.id), c.id); err != nil {
		return err
	}
	if err := c.target.Bytes.Delete(ctx, blob.CopyObject); err != nil {
		return err
	}
	_, err = blob.Bind(ctx, c.target.Meta, c.target.Bytes)
	return err
}
