package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"sluice/access"
)

// writeText sends a text that must not be cached.
func writeText(w http.ResponseWriter, contentType string, text []byte) error {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(text)
	return err
}

// writeJSON sends a JSON response that must not be cached.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	body = append(body, '\n') // for terminals
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, err = w.Write(body)
	return err
}

// decimal returns an amount as the interface represents it.
func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// setRateLimitHeaders sets the headers of draft-ietf-httpapi-ratelimit-headers-10.
func setRateLimitHeaders(h http.Header, a *access.Allowance) {
	limits := a.Limits()
	var policies []string
	for _, one := range []struct {
		name  string
		quota int64
		unit  string
	}{
		{"requests", limits.RequestsPerSecond, ""},
		{"bytes-in", limits.BytesInPerSecond, ";qu=\"content-bytes\""},
		{"bytes-out", limits.BytesOutPerSecond, ";qu=\"content-bytes\""},
	} {
		if one.quota > 0 {
			policies = append(policies, fmt.Sprintf("%q;q=%d;w=1%s", one.name, one.quota, one.unit))
		}
	}
	if len(policies) > 0 {
		h.Set("RateLimit-Policy", strings.Join(policies, ", "))
	}
	if limits.RequestsPerSecond > 0 {
		left, reset := a.Requests()
		h.Set("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", "requests", left, seconds(reset)))
	}
}

// seconds returns a duration in seconds, rounded up.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
