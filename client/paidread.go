package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sluice/wire"
)

// Bounds for one request. A request buys once, and again if concurrent reads take the chunksets
// that it bought; it also uses chunksets in the session that other requests bought, and may find
// them gone when it is sent.
const (
	maxPurchases = 3
	maxRefills   = 30
)

// get sends the GET request r for the bytes from offset up to end, or to the blob's end, and pays
// for it.
func (p *Payment) get(ctx context.Context, s *source, r *request, offset, end int64) (*http.Response, error) {
	need, err := chunksetsOf(ctx, s, offset, end)
	if err != nil {
		return nil, err
	}
	r.safety = once
	id := p.session()
	attempts, purchases, refills, began := 0, 0, 0, time.Now()
	resp, err := p.send(ctx, s, r, id, need)
	for err != nil {
		unusable := ""
		if hasEnded(err, wire.EndedSession) {
			unusable = id
		}
		switch {
		case errors.Is(err, ErrOutcomeUnknown):
			attempts++
			if attempts >= s.c.attempts || !p.permits(need) || !s.c.pause(ctx, attempts, began, err) {
				return nil, err
			}
			s.c.log.WarnContext(ctx, "A paid read is sent again.", "attempt", attempts, "error", err)
			resp, err = p.send(ctx, s, r, id, need)
		case (shortOfChunksets(err) || id == "" && requiresPayment(err)) && p.Payer != nil && purchases < maxPurchases && refills < maxRefills:
			refills++
			if need, err = p.required(ctx, s, offset, end, need, err); err != nil {
				return nil, err
			}
			var bought bool
			resp, id, bought, err = p.refill(ctx, s, r, id, need, unusable)
			if bought {
				purchases++
			}
		default:
			return nil, err
		}
	}
	return resp, nil
}

// required returns how many of at most n chunksets a read needs that was refused with err: as many
// as the response states, or as the blob has. It returns ErrPaymentRequired if the limit does not
// permit them, so that they are not bought.
func (p *Payment) required(ctx context.Context, s *source, offset, end, n int64, err error) (int64, error) {
	e, _ := errors.AsType[*Error](err)
	need, parseErr := strconv.ParseInt(e.Required, 10, 64)
	if e.Code != wire.CodeNoChunksetsLeft || parseErr != nil || need < 1 {
		b, err := s.c.head(ctx, s.path, s.name)
		if err != nil {
			return 0, err
		}
		if end < 0 || end > b.Size {
			end = b.Size
		}
		if need, err = chunksetsOf(ctx, s, offset, end); err != nil {
			return 0, err
		}
	}
	need = min(need, n)
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.MaxChunksets - p.charged - p.reserved; p.MaxChunksets > 0 && need > left {
		return 0, p.aboveLimit(need, left)
	}
	return need, nil
}

// refill obtains a session with so many chunksets, and sends the request with it. Requests of one
// payer do so one after another, so that none takes chunksets that another has bought.
func (p *Payment) refill(ctx context.Context, s *source, r *request, id string, chunksets int64, unusable string) (resp *http.Response, now string, bought bool, err error) {
	select {
	case <-ctx.Done():
		return nil, id, false, ctx.Err()
	case <-p.Payer.refilling:
	}
	defer func() { p.Payer.refilling <- struct{}{} }()
	session, bought, err := p.Payer.obtain(ctx, demand{chunksets: chunksets, unusable: unusable})
	if err != nil {
		return nil, id, bought, err
	}
	resp, err = p.send(ctx, s, r, session.ID, chunksets)
	return resp, session.ID, bought, err
}

// send sends the request once, with the session, and counts the charge. Without a session, nothing
// can be charged.
func (p *Payment) send(ctx context.Context, s *source, r *request, id string, need int64) (*http.Response, error) {
	if id == "" {
		return s.c.do(ctx, r)
	}
	reserved, err := p.reserve(need)
	if err != nil {
		return nil, err
	}
	r.header.Set(wire.HeaderSessionID, id)
	r.header.Set(wire.HeaderMaxChunksets, strconv.FormatInt(reserved, 10))
	resp, err := s.c.do(ctx, r)
	if err != nil {
		lost := int64(0)
		if errors.Is(err, ErrOutcomeUnknown) {
			lost = reserved
		}
		p.settle(reserved, lost, lost)
		return nil, err
	}
	charged := int64(0) // a read that is not paid, or not with this session, has no such header
	if field := resp.Header.Get(wire.HeaderChunksetsCharged); field != "" {
		if charged, err = parseCount(resp.Header, wire.HeaderChunksetsCharged, reserved); err != nil {
			p.settle(reserved, reserved, reserved)
			return nil, errors.Join(fmt.Errorf("client: get a blob: %w", err), resp.Body.Close())
		}
	}
	p.settle(reserved, charged, 0)
	return resp, nil
}

// requiresPayment reports whether a read without a session was refused because it must be paid for.
func requiresPayment(err error) bool {
	e, reported := errors.AsType[*Error](err)
	return reported && e.Code == wire.CodePaymentRequired
}

// shortOfChunksets reports whether a read was refused because of its session, so that nothing was
// charged.
func shortOfChunksets(err error) bool {
	e, reported := errors.AsType[*Error](err)
	return reported && (e.Code == wire.CodeNoChunksetsLeft || hasEnded(err, wire.EndedSession))
}

// chunksetsOf returns how many chunksets the bytes from offset up to end touch at most. If end is
// negative, it asks for the blob's size, which is free.
func chunksetsOf(ctx context.Context, s *source, offset, end int64) (int64, error) {
	if end < 0 {
		b, err := s.c.head(ctx, s.path, s.name)
		if err != nil {
			return 0, err
		}
		end = b.Size
	}
	if end <= offset {
		return 0, nil // the service refuses the range, or the blob is empty
	}
	return (end-1)/wire.ChunksetSize - offset/wire.ChunksetSize + 1, nil
}
