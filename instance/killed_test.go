package instance

import (
	"context"
	"errors"
	"io"

	"sluice/bytestore"
	"sluice/database/whole"
)

var errKilled = errors.New("killed")

// killedTarget fails the writes to a target from one step on, as if the process had been killed:
// before the write of that step takes effect, or after.
type killedTarget struct {
	step  int
	after bool
	steps chan int // contains the number of steps so far
}

func (k killedTarget) do(write func() error) error {
	n := <-k.steps + 1
	k.steps <- n
	switch {
	case n < k.step:
		return write()
	case n == k.step && k.after:
		return errors.Join(write(), errKilled)
	default:
		return errKilled
	}
}

type killedBytes struct {
	bytestore.Store
	killedTarget
}

func (b killedBytes) Put(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error {
	return b.do(func() error { return b.Store.Put(ctx, name, src, size) })
}

func (b killedBytes) Delete(ctx context.Context, names ...bytestore.Name) error {
	return b.do(func() error { return b.Store.Delete(ctx, names...) })
}

type killedMeta struct {
	whole.Database
	killedTarget
}

func (m killedMeta) SetProperty(ctx context.Context, name, value string) error {
	return m.do(func() error { return m.Database.SetProperty(ctx, name, value) })
}

func (m killedMeta) ReplaceProperty(ctx context.Context, name, old, value string) error {
	return m.do(func() error { return m.Database.ReplaceProperty(ctx, name, old, value) })
}
