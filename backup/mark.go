package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"sluice/bytestore"
	"sluice/internal/task"
)

// RepositoryObject is the object that marks a repository.
const RepositoryObject = bytestore.Name("sluice-backups")

// Processes that use a repository put marks into it, which they renew. A mark is its prefix and a
// name with the time at which it was made.
const (
	runningPrefix = "running-" // a backup is made
	pruningPrefix = "pruning-" // a prune runs, which excludes backups
	renewEvery    = 5 * time.Minute
	markAge       = 30 * time.Minute // older marks are from processes that have ended
)

// create marks an empty store as a repository. It returns an error if the store has anything else.
func (r *Repository) create(ctx context.Context) error {
	if is, err := r.Exists(ctx); is || err != nil {
		return err
	}
	err := r.Bytes.List(ctx, "", func(o bytestore.Object) error {
		return fmt.Errorf("backup: the place has other objects, such as %s: name an empty one", o.Name)
	})
	if err != nil {
		return err
	}
	err = r.Bytes.Put(ctx, RepositoryObject, strings.NewReader(""), 0)
	if errors.Is(err, bytestore.ErrExists) {
		return nil
	}
	return err
}

// Exists reports whether the store is marked as a repository.
func (r *Repository) Exists(ctx context.Context) (bool, error) {
	from, err := r.Bytes.Open(ctx, RepositoryObject, 0, 0)
	if errors.Is(err, bytestore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, from.Close()
}

// announce marks that this process uses the repository, and returns ErrInUse if there is a mark
// with the other prefix: each process puts its mark before it looks, so of two at least one sees
// the other's. The context that it returns ends with stop, which removes the mark, or when the mark
// could not be renewed.
func (r *Repository) announce(ctx context.Context, own, other string) (_ context.Context, stop func() error, err error) {
	name, err := r.mark(ctx, own)
	if err != nil {
		return nil, nil, err
	}
	if err := r.unused(ctx, other); err != nil {
		return nil, nil, errors.Join(err, r.Bytes.Delete(ctx, name))
	}
	working, cancel := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for renewed := time.Now(); task.Wait(working, renewEvery) == nil; {
			next, err := r.renew(working, own, name)
			if err == nil {
				name, renewed = next, time.Now()
			} else if time.Since(renewed) > markAge-2*renewEvery {
				cancel(fmt.Errorf("backup: the mark in the repository could not be renewed: %w", err))
			}
		}
	})
	return working, func() error {
		cancel(nil)
		renewing.Wait()
		return r.Bytes.Delete(context.WithoutCancel(ctx), name)
	}, nil
}

func (r *Repository) mark(ctx context.Context, prefix string) (bytestore.Name, error) {
	name := bytestore.Name(prefix) + bytestore.NewName(time.Now())
	return name, r.Bytes.Put(ctx, name, strings.NewReader(""), 0)
}

func (r *Repository) renew(ctx context.Context, prefix string, old bytestore.Name) (bytestore.Name, error) {
	name, err := r.mark(ctx, prefix)
	if err != nil {
		return old, err
	}
	return name, r.Bytes.Delete(ctx, old)
}

// unused returns ErrInUse if there is a mark with a prefix that is not too old. It removes older
// ones.
func (r *Repository) unused(ctx context.Context, prefix string) error {
	marks, err := r.objects(ctx, prefix)
	if err != nil {
		return err
	}
	for _, o := range marks {
		made, _ := o.Name[len(prefix):].Created()
		if age := time.Since(made); age < markAge {
			return fmt.Errorf("%w: %s was put there %s ago; if that process was killed, wait until it is %s old", ErrInUse, o.Name, age.Round(time.Second), markAge)
		}
		if err := r.Bytes.Delete(ctx, o.Name); err != nil {
			return err
		}
	}
	return nil
}
