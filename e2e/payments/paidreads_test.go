package payments

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"sluice/e2e"
)

// TestChecksumsOfSmallBlobsArePaidFor checks that the server returns checksums, and compares them
// with a guess, only for a payment: a checksum over a few bytes reveals the bytes.
// Invariant 30.
func TestChecksumsOfSmallBlobsArePaidFor(t *testing.T) {
	t.Parallel()
	small, large := e2e.BlobTarget("bob", "small"), e2e.BlobTarget("bob", "large")
	store := func(_ *testing.T, s *e2e.Server) (etag string) {
		sent := e2e.Content(1, 16)
		sum := sha256.Sum256(sent)
		etag = s.Must(204, "PUT", small, sent, "Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":").Header.Get("ETag")
		s.Must(204, "PUT", large, e2e.Content(2, 17))
		return etag
	}
	withheld := func(t *testing.T, s *e2e.Server, etag, session string) {
		t.Helper()
		left := s.Left(session)
		checks := func(r e2e.Response, status int, want bool) {
			t.Helper()
			if present := r.Header.Get("ETag") != "" || r.Header.Get("Repr-Digest") != ""; r.Status != status || present != want {
				t.Errorf("%v, want %d with checksums %t: %v", r, status, want, r.Header)
			}
		}
		other := `"10-0000000000000000"`
		conditions := []e2e.Headers{
			nil, {"If-None-Match", etag}, {"If-None-Match", other}, {"If-None-Match", "*"}, {"If-Match", etag}, {"If-Match", other},
			{"If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT"}, {"If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT"},
			{"If-Range", etag, "Range", "bytes=16-"}, {"If-Range", other, "Range", "bytes=16-"},
		}
		for _, h := range conditions {
			checks(s.Do("HEAD", small, nil, h...), 200, false)
			checks(s.Do("HEAD", small, nil, append(h, "Session-Id", session)...), 200, false)
			checks(s.Do("GET", small, nil, h...), 402, false)
			// Without a payment, no response depends on a guess.
			checks(s.Do("GET", small, nil, append(h, "Session-Id", session, "Max-Chunksets", "0")...), 402, false)
		}
		checks(s.Do("GET", small, nil, "Session-Id", session, "Range", "bytes=16-"), 416, false)
		checks(s.Do("HEAD", large, nil), 200, true)
		checks(s.Do("GET", large, nil, "If-None-Match", s.Do("HEAD", large, nil).Header.Get("ETag"), "Session-Id", session), 304, true)
		if got := s.Left(session); got != left {
			t.Errorf("%s chunksets left of %s, although nothing was read", got, left)
		}
		paid := s.Do("GET", small, nil, "Session-Id", session, "If-None-Match", etag)
		checks(paid, 200, true)
		if len(paid.Body) != 16 || paid.Header.Get("ETag") != etag {
			t.Errorf("a paid read: %v %v", paid, paid.Header)
		}
		if ranged := s.Do("GET", small, nil, "Session-Id", session, "If-Range", etag, "Range", "bytes=1-2"); ranged.Status != 200 || len(ranged.Body) != 16 {
			t.Errorf("with If-Range: %v", ranged)
		}
		checks(s.Do("GET", small, nil, "Session-Id", session, "Range", "bytes=1-2"), 206, true)
	}
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid"}})
		etag := store(t, s)
		withheld(t, s, etag, s.Open(s.Payer(1), 100).Buy(10).SessionID)
		list := string(s.Must(200, "GET", "/v1/blobs/bob", nil).Body)
		if strings.Contains(list, strings.Trim(etag, `"`)) || strings.Count(list, `"etag"`) != 1 {
			t.Errorf("the list contains a checksum: %s", list)
		}
	})
	t.Run("hosted", func(t *testing.T) {
		t.Parallel()
		s := e2e.StartHosted(t, "paid")
		admin := s.AsAdmin()
		etag := store(t, admin)
		session := admin.Open(s.Payer(1), 100).Buy(10).SessionID
		withheld(t, s, etag, session)
		withheld(t, s.As(s.NewKey("--scopes", "read", "--accounts", "alice")), etag, session)
		reader := s.As(s.NewKey("--scopes", "read", "--accounts", "bob"))
		if r := reader.Do("HEAD", small, nil); r.Status != 200 || r.Header.Get("ETag") != etag || r.Header.Get("Repr-Digest") == "" {
			t.Errorf("HEAD with a key for the account: %v %v", r, r.Header)
		}
		if r := reader.Do("GET", small, nil, "If-None-Match", etag); r.Status != 304 {
			t.Errorf("a condition with a key for the account: %v", r)
		}
		if list := string(reader.Must(200, "GET", "/v1/blobs/bob", nil).Body); strings.Count(list, `"etag"`) != 2 {
			t.Errorf("the list with a key for the account: %s", list)
		}
	})
}
