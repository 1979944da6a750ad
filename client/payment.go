package client

import (
	"fmt"
	"sync"
)

// Payment pays for reads. A service that serves paid reads charges one chunkset for each 10 MiB
// that a request touches, whole or in part, when it begins to respond. A Payment may be used for
// several reads, also concurrently: they then share its limit. It must not be copied.
//
// The client never resends a paid request. If its response does not arrive or is cut, the client
// counts it as charged, and continues with another request for the missing bytes, within
// MaxChunksets. The service returns to the session the chunksets for which it had sent no byte; a
// Payment does not learn of that.
//
// Nothing is bought unless the service requires it: without a session, a read is requested without
// one first.
//
// Reads are paid with a session and not directly with micropayments: the session is bought with one
// signature for many reads, and a lost response leaves no number in doubt.
type Payment struct {
	// Payer buys the session, and adds missing chunksets to it. If it is nil, SessionID pays, and
	// nothing is bought.
	Payer     *Payer
	SessionID string

	// MaxChunksets limits the charge for all reads together. A request that would exceed it is not
	// sent, or is refused by the service: the error is ErrPaymentRequired. 0 means that only the
	// payer's budget limits them. A blob has Size / wire.ChunksetSize chunksets, rounded up.
	MaxChunksets int64

	mu       sync.Mutex
	reserved int64 // by requests with a charge that is not known yet
	charged  int64
	inDoubt  int64
}

// Charged returns how many chunksets were charged so far, including charges for requests without a
// response, which InDoubt returns.
func (p *Payment) Charged() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charged
}

// InDoubt returns how many chunksets of Charged belong to requests without a response: the service
// may have charged them, and it may have returned them since.
func (p *Payment) InDoubt() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inDoubt
}

// reserve reserves up to n chunksets, as many as the limit permits. It returns ErrPaymentRequired
// if that is none.
func (p *Payment) reserve(n int64) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.MaxChunksets > 0 {
		left := p.MaxChunksets - p.charged - p.reserved
		if left <= 0 && n > 0 {
			return 0, p.aboveLimit(n, left)
		}
		n = min(n, left)
	}
	p.reserved += n
	return n, nil
}

func (p *Payment) aboveLimit(n, left int64) error {
	return fmt.Errorf("client: get a blob: %w: %d chunksets are needed, and %d of MaxChunksets %d are charged or in use", ErrPaymentRequired, n, p.MaxChunksets-left, p.MaxChunksets)
}

// settle replaces a reservation by the charge.
func (p *Payment) settle(reserved, charged, inDoubt int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserved -= reserved
	p.charged += charged
	p.inDoubt += inDoubt
}

// permits reports whether the limit permits a request that is charged n chunksets.
func (p *Payment) permits(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.MaxChunksets == 0 || p.charged+p.reserved+n <= p.MaxChunksets
}

// session returns the paying session's id, or "" if there is none yet.
func (p *Payment) session() string {
	if p.Payer == nil {
		return p.SessionID
	}
	if id := p.Payer.known.Load(); id != nil {
		return *id
	}
	return ""
}
