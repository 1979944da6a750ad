package httpapi

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"sluice/access/keys"
)

// holdReply counts n bytes of memory for the reply to x until leave, in place of what was counted
// before. If nothing was, it waits for them, and may return an error of replies.acquire.
func (x *exchange) holdReply(n int64) error {
	switch {
	case x.reply.of != nil:
		x.reply.of.resize(&x.reply, n)
		return nil
	case n <= smallReply:
		return nil
	}
	r := x.newReply(n)
	if err := x.replies.acquire(x.r.Context(), &r); err != nil {
		return err
	}
	x.reply = r
	return nil
}

// countReply is holdReply for a request that has taken effect, and must not be refused any more.
func (x *exchange) countReply(n int64) {
	if x.reply.of == nil && n > smallReply {
		x.reply = x.newReply(0)
	}
	if x.reply.of != nil {
		x.reply.of.resize(&x.reply, n)
	}
}

func (x *exchange) newReply(n int64) reply {
	return reply{
		of: x.replies, caller: x.allowance, anonymous: x.caller == nil && !x.local, size: n,
		unbounded: x.allowance.Limits().ConcurrentRequests == keys.Unlimited,
	}
}

// releaseReply ends what holdReply or countReply has begun.
func (x *exchange) releaseReply() {
	if x.reply.of != nil {
		x.reply.of.resize(&x.reply, 0)
		x.reply = reply{}
	}
}

// replyPiece is how many bytes of a reply in memory are written under one deadline, which is about
// the minimum rate's window: a client that reads nothing must not keep it for longer.
const replyPiece = 32 << 10

// writeReply sends the body for a reply in memory.
func (x *exchange) writeReply(body []byte) error {
	for piece := range slices.Chunk(body, replyPiece) {
		if _, err := x.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON sends a JSON response that must not be cached. A GET may be refused for want of memory.
func writeJSON(x *exchange, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	body = append(body, '\n') // for terminals
	if x.r.Method == http.MethodGet {
		if err := x.holdReply(int64(cap(body))); err != nil {
			return err
		}
	} else {
		x.countReply(int64(cap(body)))
	}
	x.header.set("Content-Type", "application/json")
	x.header.set("Content-Length", strconv.Itoa(len(body)))
	x.header.set("Cache-Control", "no-store")
	x.WriteHeader(status)
	return x.writeReply(body)
}
