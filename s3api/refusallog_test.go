package s3api

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/access"
	"sluice/access/sealed"
	"sluice/exchange"
	"sluice/test/testenv"
)

// TestRefusalsWithoutAKeyDoNotFillTheLog sends requests without a key and with signatures that
// cannot be parsed, which anyone can repeat: most of them have no line in the log.
// Invariant 135.
func TestRefusalsWithoutAKeyDoNotFillTheLog(t *testing.T) {
	for name, header := range map[string]string{"no key": "", "a malformed signature": "AWS4-HMAC-SHA256 nonsense"} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			database := openDatabase(t)
			box := testenv.Must(sealed.Parse([]byte(strings.Repeat("01", 32))))(t)
			keys := access.NewAuthenticator(database, access.AuthenticatorOptions{S3: box})
			s := start(t, setup{
				database: database,
				config:   func(c *Config) { c.Keys, c.Reads = keys, access.ReadsKey },
				exchange: func(c *exchange.Config) {
					c.Keys, c.Limiter = keys, access.NewLimiter(access.LimiterOptions{Usage: database})
					c.RequestLog = slog.New(slog.NewTextHandler(&log, nil))
				},
			})
			const requests = 1000
			for range requests {
				r := httptest.NewRequest("DELETE", "/ours/a", nil)
				r.Host = "localhost"
				if header != "" {
					r.Header.Set("Authorization", header)
				}
				if status := s.direct(r).StatusCode; status != 403 && status != 400 {
					t.Fatalf("status %d", status)
				}
			}
			if lines := strings.Count(log.String(), "msg=request "); lines == 0 || lines > requests/5 {
				t.Errorf("%d lines for %d requests", lines, requests)
			}
		})
	}
}
