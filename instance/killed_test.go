package instance

import (
	"context"

	"sluice/database/whole"
	"sluice/test/fault"
)

// killedAt returns a kill at the step k of those with these names, counted from 0.
func killedAt(k int, names ...string) *fault.Point[string] {
	return &fault.Point[string]{K: int64(k), Kind: fault.Fail, Kills: true, Match: fault.Only(names...)}
}

// killedMeta is metadata with a fault of its properties' changes.
type killedMeta struct {
	whole.Database
	*fault.Point[string]
}

func (m killedMeta) SetProperty(ctx context.Context, name, value string) error {
	return m.Do("set", func() error { return m.Database.SetProperty(ctx, name, value) })
}

func (m killedMeta) ReplaceProperty(ctx context.Context, name, old, value string) error {
	return m.Do("replace", func() error { return m.Database.ReplaceProperty(ctx, name, old, value) })
}
