package httpapi

import (
	"net/http"
	"strings"

	"sluice/wire"
)

// fixed is the value of a header that many responses share: Header.Set would allocate a slice for
// each of them. Its element must not be written. Header.Add copies it, because it has no capacity
// left.
type fixed []string

// The fixed values of headers.
var (
	noReferrer        = fixed{"no-referrer"}
	noSniff           = fixed{"nosniff"}
	varyOrigin        = fixed{"Origin"}
	sameSite          = fixed{"same-site"}
	crossOriginPolicy = fixed{"cross-origin"}
	everyOrigin       = fixed{"*"}
	exposedHeaders    = fixed{corsResponseHeaders}
	inBytes           = fixed{"bytes"}
	noStore           = fixed{"private, no-store"}
	privateNoCache    = fixed{"private, no-cache"}
	noCache           = fixed{"no-cache"}
	sandbox           = fixed{"sandbox"}
)

// setFixed is Header.Set for a key in canonical form and a fixed value.
func setFixed(h http.Header, key string, value fixed) { h[key] = value }

// Headers of cross-origin requests: those that a page may send, and those of responses that it may
// read in addition to the safelisted ones.
var (
	corsRequestHeaders = strings.Join([]string{
		"Authorization", wire.HeaderBlobExpires, "Cache-Control", wire.HeaderContentDigest, "Content-Disposition", "Content-Language", "Content-Type", wire.HeaderIdempotencyKey, "If-Match",
		"If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range", wire.HeaderReprDigest,
		wire.HeaderAPIKey, wire.HeaderRequestID, wire.HeaderMicropayment, wire.HeaderSessionID, wire.HeaderMaxChunksets,
	}, ", ")
	corsResponseHeaders = strings.Join([]string{
		"Accept-Ranges", wire.HeaderBlobExpires, wire.HeaderChunksetPrice, wire.HeaderChunksetsCharged, wire.HeaderChunksetsLeft,
		wire.HeaderChunksetsRequired, "Content-Disposition", "Content-Length", "Content-Range", "ETag", "Last-Modified", "RateLimit", "RateLimit-Policy",
		wire.HeaderReprDigest, "Retry-After", "WWW-Authenticate", wire.HeaderRequestID,
	}, ", ")
)
