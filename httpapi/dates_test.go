package httpapi

import (
	"net/http"
	"testing"
	"time"

	"sluice/test/testclock"
	"sluice/test/testenv"
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

// TestDatesOfAVersionThatIsCurrentAgain deletes a newer version for good: a client that holds that
// gets the older one, by date and by range, and does not overwrite it by the newer one's date.
// Invariant 104.
func TestDatesOfAVersionThatIsCurrentAgain(t *testing.T) {
	clock := testclock.At(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	s := start(t, setup{now: clock.Now})
	s.keep(t, ours)
	path := "/v1/blobs/" + ours + "/name"
	first, _ := s.want(t, 204, "PUT", path, "first")
	clock.Advance(2 * time.Second)
	second, _ := s.want(t, 204, "PUT", path, "other")
	version := s.version(t, "name")
	clock.Advance(2 * time.Second)
	s.want(t, 204, "DELETE", version, "")
	clock.Advance(2 * time.Second)
	newer := second.Header.Get("Last-Modified")
	for date, status := range map[string]int{newer: 200, first.Header.Get("Last-Modified"): 304, clock.Now().Format(http.TimeFormat): 304} {
		for _, method := range []string{"GET", "HEAD"} {
			s.want(t, status, method, path, "", "If-Modified-Since", date)
		}
		_, body := s.want(t, 200, "GET", path, "", "Range", "bytes=0-0", "If-Range", date)
		testenv.Equal(t, body, "first", "the whole blob")
	}
	s.want(t, 412, "PUT", path, "lost", "If-Unmodified-Since", newer)
	s.want(t, 304, "GET", path, "", "If-None-Match", first.Header.Get("ETag"))
}
