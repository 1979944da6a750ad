package instance

import (
	"context"
	"errors"
	"fmt"

	"sluice/blob"
	"sluice/storage"
)

// repairSteps are the recounts and the sweep.
const repairSteps = 5

// openRepairer opens the instance for repairs. If they are not possible, it records the reason and
// returns nil.
func (c *checker) openRepairer(ctx context.Context, l Location) error {
	e, err := storage.OpenRepairer(ctx, l)
	switch {
	case errors.Is(err, storage.ErrDamaged), errors.Is(err, storage.ErrNotPermitted):
		c.notRepaired("nothing was: %v", err)
		return nil
	case err != nil:
		return err
	}
	c.repairer = e
	return nil
}

func (c *checker) notRepaired(format string, values ...any) {
	c.found.NotRepaired = append(c.found.NotRepaired, fmt.Sprintf(format, values...))
}

// repair corrects counts and deletes orphans, each in transactions of their own, and goes on after
// failures. Everything else that is damaged stays as it is.
func (c *checker) repair(ctx context.Context) error {
	if c.repairer == nil {
		return nil
	}
	if c.brokenPages {
		c.notRepaired("nothing was: pages or indexes of the database are damaged, and a change could make that worse")
		return nil
	}
	c.progress.begin(PhaseRepair, repairSteps)
	defer c.progress.end()
	for _, r := range c.repairer.Recounts() {
		if r.ByRows && c.brokenRows {
			c.notRepaired("%s: rows of blobs or extents are damaged, or could not be checked, and may hide some", r.What)
			continue
		}
		if err := r.Run(ctx, c.repaired); err != nil {
			c.notRepaired("%s: %v", r.What, err)
		}
		c.progress.add(1)
	}
	c.sweep(ctx)
	c.progress.add(1)
	return nil
}

func (c *checker) repaired(format string, values ...any) {
	if c.found.Repairs++; c.found.Repairs <= maxCheckFindings {
		c.found.Repaired = append(c.found.Repaired, fmt.Sprintf(format, values...))
	}
}

// sweep deletes orphans by the rules by which a server does.
func (c *checker) sweep(ctx context.Context) {
	blobs := blob.New(c.repairer.Meta, c.repairer.Bytes, c.repairer.BlobOptions())
	swept, err := blobs.SweepOrphans(ctx)
	if swept.Deleted > 0 {
		c.repaired("objects to which nothing refers: %d were deleted", swept.Deleted)
	}
	if err != nil {
		c.notRepaired("objects to which nothing refers: %v", err)
	}
}
