package exchange

import (
	"net/http"
	"strings"

	"sluice/exchange/headers"
)

// RespondOptions responds to OPTIONS on a known path, including preflights. allow are the path's
// methods, and requestHeaders header fields that pages may send. They may also send every field for
// which a preflight asks: no browser adds credentials by itself.
func (x *Exchange) RespondOptions(allow []string, requestHeaders string) {
	methods := strings.Join(allow, ", ")
	x.Fields.Set("Allow", methods)
	if x.Request.Header.Get("Origin") != "" && x.Request.Header.Get("Access-Control-Request-Method") != "" {
		asked := headers.Requested(x.Request.Header.Values("Access-Control-Request-Headers"))
		x.Fields.Set("Access-Control-Allow-Methods", methods)
		x.Fields.Set("Access-Control-Allow-Headers", strings.Join(append([]string{requestHeaders}, asked...), ", "))
		x.Fields.Add("Vary", "Access-Control-Request-Headers")
		x.Fields.Set("Access-Control-Max-Age", "600")
		if x.Request.Header.Get("Access-Control-Request-Private-Network") == "true" {
			x.Fields.Set("Access-Control-Allow-Private-Network", "true")
		}
	}
	x.WriteHeader(http.StatusNoContent)
}
