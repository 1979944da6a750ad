package blobs

import (
	"testing"
	"time"
)

// TestPastTimes parses the times of undelete, by a clock two hours east of UTC.
func TestPastTimes(t *testing.T) {
	now := time.Date(2026, 3, 1, 14, 30, 0, 0, time.FixedZone("", 2*60*60))
	for text, want := range map[string]string{
		"12:00": "2026-03-01T10:00:00Z", "2026-02-28": "2026-02-27T22:00:00Z", "2026-02-28 12:00": "2026-02-28T10:00:00Z", "2026-02-28 12:00:01": "2026-02-28T10:00:01Z",
		"2026-02-28T12:00:00Z": "2026-02-28T12:00:00Z", "2026-02-28T12:00:00.5+01:00": "2026-02-28T11:00:00.5Z", "2h": "2026-03-01T10:30:00Z", "1d": "2026-02-28T12:30:00Z",
		"15:00": "", "2026-03-02": "", "-1h": "", "noon": "", "": "", "25:00": "",
	} {
		got, err := parsePast(text, now)
		if (err != nil) != (want == "") || err == nil && got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%q is %v, %v, want %s", text, got, err, want)
		}
	}
}
