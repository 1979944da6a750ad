package httpapi

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

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
	sameOrigin        = fixed{"same-origin"}
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

// inserted are the header fields of a response that net/http does not have to know, because they do
// not concern its framing: as they are sent, in the order of their insertion.
type inserted struct {
	text   []byte
	memory [640]byte // of text, if that suffices
}

// insert adds a field. It returns false if value is not valid in a header.
func (i *inserted) insert(key, value string) bool {
	if strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0 {
		return false
	}
	if i.text == nil {
		i.text = i.memory[:0]
	}
	i.text = append(i.text, key...)
	i.text = append(i.text, ": "...)
	i.text = append(i.text, value...)
	i.text = append(i.text, "\r\n"...)
	return true
}

// addTo adds the fields to h.
func (i *inserted) addTo(h http.Header) {
	for line := range strings.Lines(string(i.text)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), ": ")
		h.Add(key, value)
	}
}

// dates caches the texts of times in whole seconds, which many responses share: that of now, and when
// the blobs that are read often were stored.
var dates [256]atomic.Pointer[date]

type date struct {
	unix int64
	text fixed
}

// httpDate returns a time in whole seconds as an HTTP-date.
func httpDate(t time.Time) fixed {
	unix := t.Unix()
	cached := &dates[uint64(unix)%uint64(len(dates))]
	if d := cached.Load(); d != nil && d.unix == unix {
		return d.text
	}
	d := &date{unix, fixed{t.UTC().Format(http.TimeFormat)}}
	cached.Store(d)
	return d.text
}

// headerValues has memory for the values of a few headers of one response.
type headerValues struct {
	memory [5]string
	used   int
}

// set is Header.Set for a key in canonical form.
func (v *headerValues) set(h http.Header, key, value string) {
	if v.used == len(v.memory) {
		h[key] = []string{value}
		return
	}
	v.memory[v.used] = value
	v.used++
	h[key] = v.memory[v.used-1 : v.used : v.used] // Header.Add copies it
}

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
		wire.HeaderReprDigest, "Retry-After", "Server-Timing", "WWW-Authenticate", wire.HeaderRequestID,
	}, ", ")
)
