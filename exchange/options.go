package exchange

import (
	"net/http"
	"strings"
)

// RespondOptions responds to OPTIONS on a known path, including preflights. allow are the path's
// methods. requestHeaders are header fields that pages may send, and more are further ones, which
// depend on the request.
func (x *Exchange) RespondOptions(allow []string, requestHeaders string, more []string) {
	methods := strings.Join(allow, ", ")
	x.Fields.Set("Allow", methods)
	if x.Request.Header.Get("Origin") != "" && x.Request.Header.Get("Access-Control-Request-Method") != "" {
		x.Fields.Set("Access-Control-Allow-Methods", methods)
		x.Fields.Set("Access-Control-Allow-Headers", strings.Join(append([]string{requestHeaders}, more...), ", "))
		x.Fields.Add("Vary", "Access-Control-Request-Headers")
		x.Fields.Set("Access-Control-Max-Age", "600")
		if x.Request.Header.Get("Access-Control-Request-Private-Network") == "true" {
			x.Fields.Set("Access-Control-Allow-Private-Network", "true")
		}
	}
	x.WriteHeader(http.StatusNoContent)
}
