package httpapi

import "net/http"

// fixed is the value of a header that many responses share: Header.Set would allocate a slice for each
// of them. Its element must not be written. Header.Add copies it, because it has no capacity left.
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
