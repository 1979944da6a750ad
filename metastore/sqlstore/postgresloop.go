package sqlstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"sluice/metastore"
)

const (
	// unreachableLimit is for how long a call is begun anew after its first
	// failure.
	unreachableLimit = 30 * time.Second
	// doubtLimit is the same for a call whose COMMIT was not answered.
	doubtLimit = time.Minute
	// transactionMemory is how long the id of a transaction is kept: longer than
	// any call may ask for it, by clocks that differ.
	transactionMemory = 10 * time.Minute
	// forgetEvery is how often ids are forgotten, forgetBatch how many at once.
	forgetEvery = time.Minute
	forgetBatch = 10_000
	// lookEvery is how often a server that could not be reached is looked for.
	lookEvery = time.Second
)

// errPatience ends the attempts of a call.
var errPatience = errors.New("sqlstore: tried for too long")

// retries are the attempts of one call.
type retries struct {
	*postgres
	since time.Time // of the first failure
	n     int
}

// wait lets some time pass before the next attempt, more each time. It is an
// error when there is to be none: ctx has ended, which does not count in doubt,
// the store is closed, or it has taken too long.
func (r *retries) wait(ctx context.Context, f fault, doubt bool) error {
	if r.since.IsZero() {
		r.since = time.Now()
	}
	limit := r.unreachable
	if doubt {
		limit, ctx = r.doubt, context.WithoutCancel(ctx)
	}
	if time.Since(r.since) > limit {
		return errPatience
	}
	least, most := time.Millisecond, 128*time.Millisecond
	if f == faultLost {
		least, most = 8*time.Millisecond, 512*time.Millisecond
	}
	pause := min(least<<min(r.n, 10), most)
	r.n++
	// Those that were in each other's way do not meet again at once.
	timer := time.NewTimer(pause/2 + mathrand.N(pause))
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

// gaveUp is the error of a call that had no effect and is not tried again.
func gaveUp(why, err error) error {
	if errors.Is(why, errPatience) {
		why = metastore.ErrUnavailable
	}
	return fmt.Errorf("sqlstore: %w: %w", why, err)
}

// transactionID makes a fresh id: 64 bits of microseconds, then 64 random bits.
func transactionID(now time.Time) []byte {
	id := make([]byte, 16)
	binary.BigEndian.PutUint64(id, uint64(now.UnixMicro()))
	rand.Read(id[8:])
	return id
}

// loop measures the server's clock, forgets the ids of old transactions, and looks for a server that could
// not be reached, of which the calls may not tell: nobody sends them where
// nothing can be written.
func (p *postgres) loop() {
	defer close(p.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	look, measure, forget := time.NewTicker(lookEvery), time.NewTicker(measureEvery), time.NewTicker(forgetEvery)
	defer look.Stop()
	defer measure.Stop()
	defer forget.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-look.C:
			if p.down.Load() != nil {
				p.look(ctx)
			}
		case <-measure.C:
			_ = p.measure(ctx) // DeletionErr and ClockErr say so when it fails for long
		case <-forget.C:
			// By a clock that was wrong, ids would go that are in doubt.
			if p.measure(ctx) == nil {
				p.forget(ctx, p.serverTime().Add(-transactionMemory))
			}
		}
	}
}

// measure reads the server's clock.
func (p *postgres) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, measureEvery)
	defer cancel()
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	_, err = p.clock.ask(&tx{conn: &postgresConn{ctx: ctx, conn: conn.Conn()}})
	return err
}

// serverTime is the time of the server, by which the ids of transactions are
// made and forgotten on all nodes.
func (p *postgres) serverTime() time.Time { return p.clock.now() }

// look notes whether the server can be reached.
func (p *postgres) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	if p.pool.Ping(ctx) == nil {
		p.note(faultOther, nil)
	}
}

// forget deletes the ids that were made before a time. What fails is left to
// the next time.
func (p *postgres) forget(ctx context.Context, before time.Time) {
	bound := make([]byte, 8)
	binary.BigEndian.PutUint64(bound, uint64(before.UnixMicro()))
	for {
		ctx, cancel := context.WithTimeout(ctx, attemptLimit)
		tag, err := p.pool.Exec(ctx, `DELETE FROM transactions WHERE id IN
			(SELECT t.id FROM transactions t WHERE t.id < $1 ORDER BY t.id LIMIT $2)`, bound, int64(forgetBatch))
		cancel()
		if err != nil || tag.RowsAffected() < forgetBatch || p.isClosed() {
			return
		}
	}
}
