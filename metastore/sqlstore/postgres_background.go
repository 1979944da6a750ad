package sqlstore

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"sluice/metastore"
)

const (
	// transactionMemory is how long the id of a transaction is kept. One that is
	// older than half of it, or whose time is as far ahead, is in doubt for ever.
	transactionIDRetention = 10 * time.Minute
	// forgetEvery is how often ids are forgotten, forgetBatch how many at once.
	deleteIDsEvery = time.Minute
	deleteIDsBatch = 10_000
	// forgetLimit bounds one such statement.
	deleteIDsTimeout = 30 * time.Second
	// lookEvery is how often a server that could not be reached is looked for.
	probeEvery = time.Second
)

// errPatience ends the attempts of a call.
var errPatience = errors.New("sqlstore: tried for too long")

// retries are the attempts of one call.
type retries struct {
	*postgresEngine
	n int
}

// wait lets some time pass before the next attempt, more each time. It is an
// error when there is to be none: ctx has ended, the store is closed, or it would
// begin after until.
func (r *retries) wait(ctx context.Context, f errorClass, until time.Time) error {
	least, most := time.Millisecond, 128*time.Millisecond
	if f == classLost {
		least, most = 8*time.Millisecond, 512*time.Millisecond
	}
	pause := min(least<<min(r.n, 10), most)
	// Those that were in each other's way do not meet again at once.
	pause = pause/2 + mathrand.N(pause)
	if time.Until(until) < pause {
		return errPatience
	}
	r.n++
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.quit:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gaveUp is the error of a call that had no effect and is not tried again after
// an attempt that met f.
func gaveUpError(why error, f errorClass, err error) error {
	switch {
	case !errors.Is(why, errPatience):
	case f == classLost:
		why = metastore.ErrUnavailable
	default:
		why = metastore.ErrBusy
	}
	return fmt.Errorf("sqlstore: %w: %w", why, err)
}

// loop measures the server's clock, forgets the ids of old transactions, and looks
// for a server that could not be reached, of which the calls may not tell: nobody
// sends them where nothing can be written.
func (p *postgresEngine) loop() {
	defer close(p.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	look, measure, forget := time.NewTicker(probeEvery), time.NewTicker(measureEvery), time.NewTicker(deleteIDsEvery)
	defer look.Stop()
	defer measure.Stop()
	defer forget.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-look.C:
			if p.down.Load() != nil {
				p.probe(ctx)
			}
		case <-measure.C:
			_ = p.measure(ctx) // DeletionErr and ClockErr say so when it fails for long
		case <-forget.C:
			p.deleteIDs(ctx, transactionIDRetention)
		}
	}
}

// measure reads the server's clock.
func (p *postgresEngine) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, measureEvery)
	defer cancel()
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	_, err = p.serverClock.ask(&tx{conn: &postgresConn{ctx: ctx, conn: conn.Conn()}})
	return err
}

// look notes whether the server can be reached.
func (p *postgresEngine) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeEvery)
	defer cancel()
	if p.pool.Ping(ctx) == nil {
		p.observe(classOther, nil)
	}
}

// forget deletes the ids that are older than memory by the server's clock. What
// fails is left to the next time. An id that comes back after a crash does no
// harm, so that nothing waits for the disk or a standby.
func (p *postgresEngine) deleteIDs(ctx context.Context, memory time.Duration) {
	for !p.isClosed() {
		n, err := p.deleteSomeIDs(ctx, memory)
		if err != nil || n < deleteIDsBatch {
			return
		}
	}
}

func (p *postgresEngine) deleteSomeIDs(ctx context.Context, memory time.Duration) (int64, error) {
	c, err := p.acquire(ctx, time.Now().Add(deleteIDsTimeout))
	if err != nil {
		return 0, err
	}
	defer c.release()
	// The time of the statement, unlike that of the clock, can be looked up in an index.
	results, err := c.send(fmt.Sprintf(`BEGIN; SET LOCAL synchronous_commit = off;
		DELETE FROM transactions WHERE id IN (SELECT t.id FROM transactions t
			WHERE t.id < int8send(CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000 AS BIGINT) - CAST(%d AS BIGINT)) ORDER BY t.id LIMIT %d);
		COMMIT`, memory.Microseconds(), deleteIDsBatch))
	if err != nil {
		return 0, err
	}
	return results[2].CommandTag.RowsAffected(), nil
}
