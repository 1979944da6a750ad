package engine

import (
	"fmt"
	"sync/atomic"
)

// commitGuard holds the function of DB.Guard.
type commitGuard struct{ permit atomic.Pointer[func() error] }

// check returns why nothing may be committed now, or nil.
func (g *commitGuard) check() error {
	if permit := g.permit.Load(); permit != nil {
		if err := (*permit)(); err != nil {
			return fmt.Errorf("sqlstore: the commit was refused: %w", err)
		}
	}
	return nil
}
