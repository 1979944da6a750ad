package engine

import (
	"context"
	"fmt"
	"time"
)

const (
	// transactionIDRetention is how long a transaction's id is kept. A transaction in doubt that
	// began more than half of it ago, or that long in the future, stays in doubt.
	transactionIDRetention = 10 * time.Minute
	// deleteIDsEvery is how often ids are deleted, deleteIDsBatch how many in a statement.
	deleteIDsEvery = time.Minute
	deleteIDsBatch = 10_000
	// deleteIDsTimeout bounds such a statement.
	deleteIDsTimeout = 30 * time.Second
	// probeEvery is how often a server that could not be reached is probed, and probeTimeout bounds
	// the wait for its answer.
	probeEvery   = time.Second
	probeTimeout = 5 * time.Second
)

// loop measures the server's clock, deletes old transactions' ids, and probes a server that could
// not be reached. Without probes that state could last: nodes that cannot write receive no calls.
func (p *postgresEngine) loop() {
	defer close(p.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	probe, measure, deleteIDs := time.NewTicker(probeEvery), time.NewTicker(measureEvery), time.NewTicker(deleteIDsEvery)
	defer probe.Stop()
	defer measure.Stop()
	defer deleteIDs.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-probe.C:
			if p.down.Load() != nil {
				p.probe(ctx)
			}
		case <-measure.C:
			_ = p.measure(ctx) // DeletionErr and ClockErr report repeated failures
		case <-deleteIDs.C:
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
	_, err = p.serverClock.query(&Tx{conn: &postgresConn{ctx: ctx, conn: conn.Conn()}})
	return err
}

// probe records whether the server can be reached.
func (p *postgresEngine) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if p.pool.Ping(ctx) == nil {
		p.observe(nil, classOther, nil)
	}
}

// deleteIDs deletes the ids that are older than retention by the server's clock, except the
// greatest of them (acknowledged.verify). Errors are ignored; the next call tries again. The
// deletion need not be durable, because an id that reappears after a crash does no harm.
func (p *postgresEngine) deleteIDs(ctx context.Context, retention time.Duration) {
	for !p.isClosed() {
		n, err := p.deleteSomeIDs(ctx, retention)
		if err != nil || n < deleteIDsBatch {
			return
		}
	}
}

func (p *postgresEngine) deleteSomeIDs(ctx context.Context, retention time.Duration) (int64, error) {
	c, err := p.acquire(ctx, time.Now().Add(deleteIDsTimeout))
	if err != nil {
		return 0, err
	}
	defer c.release()
	// statement_timestamp is stable, unlike clock_timestamp, so that the index can be used.
	results, err := c.send(fmt.Sprintf(`BEGIN; SET LOCAL synchronous_commit = off;
		DELETE FROM transactions WHERE id IN (SELECT t.id FROM transactions t
			WHERE t.id < (SELECT old.id FROM transactions old
				WHERE old.id < int8send(CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000 AS BIGINT) - CAST(%d AS BIGINT))
				ORDER BY old.id DESC LIMIT 1)
			ORDER BY t.id LIMIT %d);
		COMMIT`, retention.Microseconds(), deleteIDsBatch))
	if err != nil {
		return 0, err
	}
	return results[2].CommandTag.RowsAffected(), nil
}
