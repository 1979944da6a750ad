package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestQuotaOfWhatIsRetained begins and aborts uploads, adds to a channel with a new Idempotency-Key
// each, sends a part again, and stores and deletes blobs, each until the service refuses it, while
// it keeps deleted bytes. None leaves more on the disk than twice the quota of occupied bytes. The
// service refuses nothing that frees something, and no repeat.
func TestQuotaOfWhatIsRetained(t *testing.T) {
	t.Parallel()
	const stored, occupied, most = 256 << 10, 1 << 20, 5000
	payer := "0x" + strings.Repeat("b", 64)
	grown := func(t *testing.T, attack func(s *server, refused func(response) bool)) {
		t.Helper()
		t.Parallel()
		s := startHosted(t, "public", "--garbage-grace", "24h")
		by := s.as(s.newKey("--scopes", "write,channels", "--all-accounts", "--group", "team", "--stored-bytes", "256KiB"))
		other := s.asAdmin()
		by.must(204, "PUT", blobTarget("bob", "kept"), content(1, 1000))
		before := diskUsage(t, s.data)
		attack(by, func(r response) bool {
			t.Helper()
			if r.status < 300 {
				return false
			}
			checkProblem(t, r, 403, "quota_exceeded")
			if want := fmt.Sprintf("of %d occupied bytes", occupied); !strings.Contains(string(r.body), want) {
				t.Errorf("the refusal is %s, want %q", r.body, want)
			}
			return true
		})
		// The service does not wait for the body, and other groups are not affected.
		r := s.raw("PUT", fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", s.base+blobTarget("bob", "more"), by.key, stored-10_000))
		checkProblem(t, r, 403, "quota_exceeded")
		other.must(204, "PUT", blobTarget("carol", "fits"), content(2, 1000))
		by.must(204, "DELETE", blobTarget("bob", "kept"), nil)
		s.stop()
		// The service charges for rows what they take in full pages, and pages are at least half
		// full.
		if taken := diskUsage(t, s.data) - before; taken > 2*occupied {
			t.Errorf("%d bytes are left on the disk, and the quota is %d", taken, occupied)
		} else {
			t.Logf("%d bytes are left on the disk", taken)
		}
	}
	until := func(t *testing.T, step func(i int) bool) {
		t.Helper()
		for i := range most {
			if step(i) {
				t.Logf("refused after %d", i)
				return
			}
		}
		t.Fatalf("%d are accepted", most)
	}
	t.Run("uploads", func(t *testing.T) {
		grown(t, func(s *server, refused func(response) bool) {
			body := func(i int) []byte {
				return asJSON(t, map[string]any{"rawAccount": "bob", "rawBlobName": fmt.Sprint(i, strings.Repeat("n", 900)), "metadata": map[string]string{"m": strings.Repeat("v", 1900)}})
			}
			until(t, func(i int) bool {
				r := s.do("POST", "/v1/multipart-uploads", body(i), "Content-Type", "application/json")
				if refused(r) {
					return true
				}
				s.must(204, "DELETE", "/v1/multipart-uploads/"+text(t, r.object(t), "uploadId"), nil)
				return false
			})
		})
	})
	t.Run("parts", func(t *testing.T) {
		grown(t, func(s *server, refused func(response) bool) {
			upload := s.begin("bob", "u", 20_000)
			until(t, func(i int) bool { return refused(s.do("PUT", partTarget(upload, 0), content(uint64(i), 20_000))) })
			s.must(200, "POST", "/v1/multipart-uploads/"+upload+"/complete", nil)
			s.must(200, "POST", "/v1/multipart-uploads/"+upload+"/complete", nil)
			if got := fmt.Sprint(s.must(200, "GET", "/v1/multipart-uploads/"+upload, nil).object(t)["parts"], s.must(200, "GET", "/v1/multipart-uploads/"+upload, nil).object(t)["bytes"]); got != "[]20000" {
				t.Errorf("from the completed upload %s is left", got)
			}
		})
	})
	t.Run("blobs", func(t *testing.T) {
		grown(t, func(s *server, refused func(response) bool) {
			until(t, func(i int) bool {
				if refused(s.do("PUT", blobTarget("bob", fmt.Sprint(i%3)), content(uint64(i), 20_000))) {
					return true
				}
				if i%3 > 0 { // the others are replaced
					s.must(204, "DELETE", blobTarget("bob", fmt.Sprint(i%3)), nil)
				}
				return false
			})
		})
	})
	t.Run("deposits", func(t *testing.T) {
		grown(t, func(s *server, refused func(response) bool) {
			opened := s.must(201, "POST", "/v1/sessions/micropaymentchannels", asJSON(t, map[string]any{"userIdentity": payer}), "Content-Type", "application/json")
			target := "/v1/sessions/micropaymentchannels/" + text(t, opened.object(t), "channelId") + "/deposit"
			deposit := func(i int) response {
				return s.do("POST", target, []byte(`{"amount": "1"}`), "Content-Type", "application/json", "Idempotency-Key", fmt.Sprint("key", i))
			}
			first := deposit(0)
			until(t, func(i int) bool { return refused(deposit(i)) })
			if again := deposit(0); again.status != 200 || string(again.body) != string(first.body) {
				t.Errorf("a repeat is %d %s, want %s", again.status, again.body, first.body)
			}
			s.must(200, "POST", target, []byte(`{"amount": "1"}`), "Content-Type", "application/json")
		})
	})
}

// diskUsage returns how many bytes the database and the objects take in a data folder.
func diskUsage(t *testing.T, data string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), "ballast") {
			return err
		}
		info, err := os.Stat(path)
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
