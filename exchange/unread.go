package exchange

import (
	"slices"

	"sluice/access/keys"
)

// HoldReply counts n bytes of memory for the reply to x until leave, in place of the bytes counted
// before. If none were, it waits for them. The error is from replies.acquire or replies.grow.
func (x *Exchange) HoldReply(n int64) error {
	switch {
	case x.reply.of != nil && n > x.reply.size:
		return x.reply.of.grow(&x.reply, n)
	case x.reply.of != nil:
		x.reply.of.resize(&x.reply, n)
		return nil
	case n <= smallReply:
		return nil
	}
	r := x.newReply(x.service.replies, n)
	if err := x.service.replies.acquire(x.Request.Context(), &r); err != nil {
		return err
	}
	x.reply = r
	return nil
}

// CountReply is HoldReply for a request that has taken effect, and must not be refused any more.
func (x *Exchange) CountReply(n int64) {
	if x.reply.of == nil && n > smallReply {
		x.reply = x.newReply(x.service.replies, 0)
	}
	if x.reply.of != nil {
		x.reply.of.resize(&x.reply, n)
	}
}

// HoldDocument counts n bytes of memory for the document in the request until leave, in place of
// those that were counted before. Documents do not count to replies, and it does not wait. The
// error is like replies.acquire's.
func (x *Exchange) HoldDocument(n int64) error {
	if x.document.of == nil {
		x.document = x.newReply(x.service.documents, 0)
	}
	return x.document.of.grow(&x.document, n)
}

func (x *Exchange) newReply(of *replies, n int64) reply {
	return reply{
		of: of, caller: x.Allowance, anonymous: x.Caller == nil && !x.Local, size: n,
		unbounded: x.Allowance.Limits().ConcurrentRequests == keys.Unlimited,
	}
}

// ReleaseDocument releases the memory that HoldDocument holds.
func (x *Exchange) ReleaseDocument() { x.document.release() }

// release stops counting the reply, if it is counted.
func (r *reply) release() {
	if r.of != nil {
		r.of.resize(r, 0)
		*r = reply{}
	}
}

// ReplyPiece is how many bytes from a reply in memory are written under one deadline, which is
// about the minimum rate's window: a client that reads nothing must not keep it for longer.
const ReplyPiece = 32 << 10

// WriteReply sends the body for a reply in memory.
func (x *Exchange) WriteReply(body []byte) error {
	for piece := range slices.Chunk(body, ReplyPiece) {
		if _, err := x.Write(piece); err != nil {
			return err
		}
	}
	return nil
}
