package httpapi

import (
	"net/http"
	"testing"
	"time"

	"sluice/test/testclock"
)

// TestDatesOfVersions checks the dates that a client receives while a blob is stored, replaced and
// deleted within a second and with a clock that is set back.
// Invariant 104.
func TestDatesOfVersions(t *testing.T) {
	clock := testclock.At(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	s := start(t, setup{now: clock.Now})
	const path = "/v1/blobs/0x1/name"
	put := func(body string, headers ...string) (status int, modified string) {
		t.Helper()
		res, _ := s.do(t, "PUT", path, body, headers...)
		return res.StatusCode, res.Header.Get("Last-Modified")
	}
	// part requests one byte from the version with this date.
	part := func(what, date string, want int) {
		t.Helper()
		res, body := s.do(t, "GET", path, "", "Range", "bytes=0-0", "If-Range", date)
		if res.StatusCode != want {
			t.Errorf("%s: If-Range %s: %d %q, want %d", what, date, res.StatusCode, body, want)
		}
		if got := res.Header.Get("Date"); got != clock.Now().Format(http.TimeFormat) {
			t.Errorf("%s: Date is %s", what, got)
		}
	}

	_, first := put("first")
	part("a first version", first, 206)
	clock.Advance(time.Second / 2)
	_, second := put("second")
	if second != first {
		t.Fatalf("versions of one second have the dates %s and %s", first, second)
	}
	part("a second version of the second", second, 200)
	clock.Advance(time.Second)
	_, third := put("third")
	part("a version of the next second", third, 206)
	part("the date of the previous version", second, 200)
	s.want(t, 204, "DELETE", path, "")
	_, fourth := put("fourth")
	part("a version created again within the second", fourth, 200)

	// The clock goes back by an hour: dates do not.
	clock.Advance(2 * time.Second)
	_, before := put("before")
	part("a version from before the clock was set back", before, 206)
	clock.Advance(-time.Hour)
	_, after := put("after")
	at, err := http.ParseTime(after)
	if err != nil || at.After(clock.Now()) {
		t.Errorf("Last-Modified %s is after Date", after)
	}
	part("a version of the future", after, 200)
	clock.Advance(time.Second)
	if status, _ := put("lost", "If-Unmodified-Since", after); status != 412 {
		t.Errorf("with a date that was limited to Date when it was sent: %d", status)
	}
	clock.Advance(time.Hour)
	res, _ := s.do(t, "GET", path, "")
	if got := res.Header.Get("Last-Modified"); got != before {
		t.Errorf("Last-Modified is %s when the clock has caught up, want that of the previous version, %s", got, before)
	}
	part("a version that shares its second with the previous one", before, 200)
}
