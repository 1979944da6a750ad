package enginetest

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
)

// Transactor runs a function in a transaction, as an engine's methods do.
type Transactor = func(context.Context, func(*engine.Tx) error) error

// Hooks wrap a database's transactions. A nil hook changes nothing.
type Hooks struct {
	Write, WriteLocked, Read func(Transactor) Transactor
}

// Hook wraps a database's transactions and returns the engine without the hooks.
func Hook(db *engine.DB, h Hooks) (plain engine.Engine) {
	db.Wrap(func(e engine.Engine) engine.Engine {
		plain = e
		return hooked{e, h}
	})
	return plain
}

// Observe calls see before each statement of a database's write transactions.
func Observe(db *engine.DB, see func(query string, in engine.Args)) {
	watch := func(write Transactor) Transactor {
		return func(ctx context.Context, fn func(*engine.Tx) error) error {
			return write(ctx, func(t *engine.Tx) error {
				defer t.Observe(see)()
				return fn(t)
			})
		}
	}
	Hook(db, Hooks{Write: watch, WriteLocked: watch})
}

type hooked struct {
	engine.Engine
	hooks Hooks
}

func wrapped(hook func(Transactor) Transactor, run Transactor) Transactor {
	if hook == nil {
		return run
	}
	return hook(run)
}

func (e hooked) Write(ctx context.Context, fn func(*engine.Tx) error) error {
	return wrapped(e.hooks.Write, e.Engine.Write)(ctx, fn)
}

func (e hooked) WriteLocked(ctx context.Context, fn func(*engine.Tx) error) error {
	return wrapped(e.hooks.WriteLocked, e.Engine.WriteLocked)(ctx, fn)
}

func (e hooked) StartLocked(until time.Time, fn func(*engine.Tx) error, done func(any, error)) error {
	if e.hooks.WriteLocked == nil {
		return e.Engine.StartLocked(until, fn, done)
	}
	go func() {
		done(recovered(func() error {
			return e.WriteLocked(database.WithPatience(context.Background(), time.Until(until)), fn)
		}))
	}()
	return nil
}

// recovered returns the result of run, or the value with which it panicked and an error.
func recovered(run func() error) (panicked any, err error) {
	defer func() {
		if panicked = recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	return nil, run()
}

func (e hooked) Read(ctx context.Context, fn func(*engine.Tx) error) error {
	return wrapped(e.hooks.Read, e.Engine.Read)(ctx, fn)
}

func (e hooked) Snapshot(ctx context.Context, fn func(*engine.Tx) error) error {
	return wrapped(e.hooks.Read, e.Engine.Snapshot)(ctx, fn)
}

func (e hooked) Survey(ctx context.Context, fn func(*engine.Tx) error) error {
	return wrapped(e.hooks.Read, e.Engine.Survey)(ctx, fn)
}
