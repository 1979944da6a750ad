package payments

import (
	"encoding/base64"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// decoded returns an encoded micropayment's bytes.
func decoded(t testing.TB, text string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	testenv.OK(t, err)
	return b
}

// parseTime parses a time in a JSON object.
func parseTime(t testing.TB, o map[string]any, member string) time.Time {
	t.Helper()
	m, err := time.Parse(time.RFC3339Nano, e2e.Text(t, o, member))
	testenv.OK(t, err)
	return m
}
