package httpapi

import (
	"net/http"
	"testing"
)

// TestFixedHeadersAreNotWrittenTo checks that what is added to or set in one response does not
// appear in the next.
func TestFixedHeadersAreNotWrittenTo(t *testing.T) {
	for _, value := range []fixed{noReferrer, varyOrigin, noCache} {
		want := value[0]
		h := http.Header{}
		setFixed(h, "Vary", value)
		h.Add("Vary", "Accept")
		if got := h.Values("Vary"); len(got) != 2 || got[0] != want {
			t.Errorf("after Add the header is %q", got)
		}
		setFixed(h, "Vary", value)
		h.Set("Vary", "Accept")
		next := http.Header{}
		setFixed(next, "Vary", value)
		if got := next.Values("Vary"); len(got) != 1 || got[0] != want {
			t.Errorf("the next response has %q, want %q", got, want)
		}
	}
}
