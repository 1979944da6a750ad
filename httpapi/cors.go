package httpapi

import (
	"strings"

	"sluice/wire"
)

// Headers for cross-origin pages: those that a page may send, and those that it may read in a
// response in addition to the safelisted headers.
var (
	corsRequestHeaders = strings.Join([]string{
		"Authorization", wire.HeaderBlobExpires, wire.HeaderHold, wire.HeaderRetainMode, wire.HeaderRetainUntil, wire.HeaderBypass, "Cache-Control", wire.HeaderContentDigest, "Content-Disposition", "Content-Language", "Content-Type", wire.HeaderIdempotencyKey, "If-Match",
		"If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Last-Event-ID", "Range", wire.HeaderReprDigest,
		wire.HeaderAPIKey, wire.HeaderRequestID, wire.HeaderMicropayment, wire.HeaderSessionID, wire.HeaderMaxChunksets, wire.HeaderMaxChunksetPrice,
	}, ", ")
	corsResponseHeaders = strings.Join([]string{
		"Accept-Ranges", wire.HeaderBlobDeleted, wire.HeaderBlobExpires, wire.HeaderHold, wire.HeaderRetainMode, wire.HeaderRetainUntil, wire.HeaderBlobVersion, wire.HeaderChunksetPrice, wire.HeaderChunksetsCharged, wire.HeaderChunksetsLeft,
		wire.HeaderChunksetsRequired, "Content-Disposition", "Content-Length", "Content-Range", wire.HeaderErrorCode, "ETag", "Last-Modified", "RateLimit", "RateLimit-Policy",
		wire.HeaderReprDigest, "Retry-After", "Server-Timing", "WWW-Authenticate", wire.HeaderRequestID,
	}, ", ")
)

// respondOptions responds to OPTIONS on a known path, including preflights.
func respondOptions(x *call, allow []string) {
	allowed := corsRequestHeaders
	if x.Local {
		allowed += ", " + wire.HeaderFault
	}
	x.RespondOptions(allow, allowed)
}
