package exchange

import (
	"slices"

	"sluice/access/keys"
)

// HoldReply counts n bytes of memory for the reply to x until leave, in place of what was counted
// before. If nothing was, it waits for them, and may return an error of replies.acquire.
func (x *Exchange) HoldReply(n int64) error {
	switch {
	case x.reply.of != nil:
		x.reply.of.resize(&x.reply, n)
		return nil
	case n <= smallReply:
		return nil
	}
	r := x.newReply(n)
	if err := x.service.replies.acquire(x.Request.Context(), &r); err != nil {
		return err
	}
	x.reply = r
	return nil
}

// CountReply is HoldReply for a request that has taken effect, and must not be refused any more.
func (x *Exchange) CountReply(n int64) {
	if x.reply.of == nil && n > smallReply {
		x.reply = x.newReply(0)
	}
	if x.reply.of != nil {
		x.reply.of.resize(&x.reply, n)
	}
}

func (x *Exchange) newReply(n int64) reply {
	return reply{
		of: x.service.replies, caller: x.Allowance, anonymous: x.Caller == nil && !x.Local, size: n,
		unbounded: x.Allowance.Limits().ConcurrentRequests == keys.Unlimited,
	}
}

// releaseReply ends what HoldReply or CountReply has begun.
func (x *Exchange) releaseReply() {
	if x.reply.of != nil {
		x.reply.of.resize(&x.reply, 0)
		x.reply = reply{}
	}
}

// ReplyPiece is how many bytes of a reply in memory are written under one deadline, which is about
// the minimum rate's window: a client that reads nothing must not keep it for longer.
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
