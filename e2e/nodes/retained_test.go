package nodes

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestQuotaOfWhatIsRetained begins and aborts uploads, adds to a channel with a new Idempotency-Key
// each, sends a part again, and stores and deletes blobs, each until the service refuses it, while
// it keeps deleted bytes. None leaves more on the disk than twice the quota of occupied bytes. The
// service refuses nothing that frees something, and no repeat.
// Invariant 41.
func TestQuotaOfWhatIsRetained(t *testing.T) {
	t.Parallel()
	const stored, occupied, most = 256 << 10, 1 << 20, 5000
	payer := "0x" + strings.Repeat("b", 64)
	grown := func(t *testing.T, attack func(s *e2e.Server, refused func(e2e.Response) bool)) {
		t.Helper()
		t.Parallel()
		s := e2e.StartHosted(t, "public", "--garbage-grace", "24h")
		by := s.As(s.NewKey("--scopes", "write,channels", "--all-accounts", "--group", "team", "--stored-bytes", "256KiB"))
		other := s.AsAdmin()
		by.Must(204, "PUT", e2e.BlobTarget("bob", "kept"), e2e.Content(1, 1000))
		before := diskUsage(t, s.Data)
		attack(by, func(r e2e.Response) bool {
			t.Helper()
			if r.Status < 300 {
				return false
			}
			e2e.CheckProblem(t, r, 403, "quota_exceeded")
			if want := fmt.Sprintf("of %d occupied bytes", occupied); !strings.Contains(string(r.Body), want) {
				t.Errorf("the refusal is %s, want %q", r.Body, want)
			}
			return true
		})
		// The service does not wait for the body, and other groups are not affected.
		r := s.Raw("PUT", fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", s.Base+e2e.BlobTarget("bob", "more"), by.Key, stored-10_000))
		e2e.CheckProblem(t, r, 403, "quota_exceeded")
		other.Must(204, "PUT", e2e.BlobTarget("carol", "fits"), e2e.Content(2, 1000))
		by.Must(204, "DELETE", e2e.BlobTarget("bob", "kept"), nil)
		s.Stop()
		// The service charges for rows the bytes that they take in full pages, and pages are at
		// least half full.
		if taken := diskUsage(t, s.Data) - before; taken > 2*occupied {
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
		grown(t, func(s *e2e.Server, refused func(e2e.Response) bool) {
			body := func(i int) []byte {
				return e2e.AsJSON(t, map[string]any{"rawAccount": "bob", "rawBlobName": fmt.Sprint(i, strings.Repeat("n", 900)), "metadata": map[string]string{"m": strings.Repeat("v", 1900)}})
			}
			until(t, func(i int) bool {
				r := s.Do("POST", "/v1/multipart-uploads", body(i), "Content-Type", "application/json")
				if refused(r) {
					return true
				}
				s.Must(204, "DELETE", "/v1/multipart-uploads/"+e2e.Text(t, r.Object(t), "uploadId"), nil)
				return false
			})
		})
	})
	t.Run("parts", func(t *testing.T) {
		grown(t, func(s *e2e.Server, refused func(e2e.Response) bool) {
			upload := s.Begin("bob", "u", 40_000)
			until(t, func(i int) bool {
				return refused(s.Do("PUT", e2e.PartTarget(upload, 0), e2e.Content(uint64(i), 40_000)))
			})
			s.Must(200, "POST", "/v1/multipart-uploads/"+upload+"/complete", nil)
			s.Must(200, "POST", "/v1/multipart-uploads/"+upload+"/complete", nil)
			if got := fmt.Sprint(s.Must(200, "GET", "/v1/multipart-uploads/"+upload, nil).Object(t)["parts"], s.Must(200, "GET", "/v1/multipart-uploads/"+upload, nil).Object(t)["bytes"]); got != "[]40000" {
				t.Errorf("from the completed upload %s is left", got)
			}
		})
	})
	t.Run("blobs", func(t *testing.T) {
		grown(t, func(s *e2e.Server, refused func(e2e.Response) bool) {
			until(t, func(i int) bool {
				if refused(s.Do("PUT", e2e.BlobTarget("bob", fmt.Sprint(i%3)), e2e.Content(uint64(i), 40_000))) {
					return true
				}
				if i%3 > 0 { // the rest are replaced
					s.Must(204, "DELETE", e2e.BlobTarget("bob", fmt.Sprint(i%3)), nil)
				}
				return false
			})
		})
	})
	t.Run("deposits", func(t *testing.T) {
		grown(t, func(s *e2e.Server, refused func(e2e.Response) bool) {
			opened := s.Must(201, "POST", "/v1/sessions/micropaymentchannels", e2e.AsJSON(t, map[string]any{"userIdentity": payer}), "Content-Type", "application/json")
			target := "/v1/sessions/micropaymentchannels/" + e2e.Text(t, opened.Object(t), "channelId") + "/deposit"
			deposit := func(i int) e2e.Response {
				return s.Do("POST", target, []byte(`{"amount": "1"}`), "Content-Type", "application/json", "Idempotency-Key", fmt.Sprint("key", i))
			}
			first := deposit(0)
			until(t, func(i int) bool { return refused(deposit(i)) })
			if again := deposit(0); again.Status != 200 || string(again.Body) != string(first.Body) {
				t.Errorf("a repeat is %d %s, want %s", again.Status, again.Body, first.Body)
			}
			s.Must(200, "POST", target, []byte(`{"amount": "1"}`), "Content-Type", "application/json")
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
	testenv.OK(t, err)
	return sum
}
