package resources

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestMemoryOfACheck checks an instance with a certain number of blobs and one with eight times as
// many. The rows are sorted in several ways, which takes more memory unless it is done in files.
func TestMemoryOfACheck(t *testing.T) {
	const blobs = 40_000
	data := filepath.Join(testenv.MemoryDir(t), "data")
	s := e2e.Start(t, e2e.Options{Data: data})
	s.Must(204, "PUT", e2e.BlobTarget("team", "first"), make([]byte, 20))
	s.Stop()
	fill(t, data, 1, blobs)
	few := memoryOfACheck(t, data)
	fill(t, data, blobs+1, 8*blobs)
	many := memoryOfACheck(t, data)
	t.Logf("%d blobs: %d MiB; %d blobs: %d MiB", blobs, few>>20, 8*blobs, many>>20)
	if more := many - few; more > checkGrowth && !testenv.Race {
		t.Errorf("with more blobs a check took %d MiB more", more>>20)
	}
}

// checkGrowth is how much the pages that SQLite's connections cache may add.
const checkGrowth = 24 << 20

// fill copies the first blob in a stopped instance; each copy has its own content.
func fill(t *testing.T, data string, from, to int) {
	t.Helper()
	e2e.Execute(t, data,
		fmt.Sprintf(`CREATE TABLE fill AS WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT CAST(printf('%%016d', i * 7919 %% 1000003) AS BLOB) AS content FROM n`, from, to),
		`INSERT INTO blobs (account, name_head, name_hash, name_tail, content, size, crc64, part_size, content_type, modified)
			SELECT b.account, f.content, b.name_hash, b.name_tail, f.content, b.size, b.crc64, b.part_size, b.content_type, b.modified
			FROM fill f, (SELECT * FROM blobs WHERE name_head = CAST('first' AS BLOB)) b`,
		`INSERT INTO extents (content, part, off, size, blocks)
			SELECT f.content, e.part, e.off, e.size, e.blocks FROM fill f, (SELECT * FROM extents ORDER BY content DESC LIMIT 1) e`,
		`INSERT INTO bodies (content, part, off, body)
			SELECT f.content, b.part, b.off, b.body FROM fill f, (SELECT * FROM bodies ORDER BY content DESC LIMIT 1) b`,
		`DROP TABLE fill`)
}

// memoryOfACheck returns the greatest memory of a check that is not mapped from files, in bytes.
// The check must find nothing.
func memoryOfACheck(t *testing.T, data string) (peak int64) {
	t.Helper()
	check := exec.CommandContext(t.Context(), e2e.Sluice, "check", "--quiet", "--data", data)
	out := &strings.Builder{}
	check.Stdout, check.Stderr = out, out
	testenv.OK(t, check.Start())
	ended := make(chan error, 1)
	go func() { ended <- check.Wait() }()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil || !strings.HasSuffix(out.String(), "No damage was found.\n") {
				t.Fatalf("%v: %s", err, out)
			}
			return peak
		case <-look.C:
			peak = max(peak, anonymousMemory(check.Process.Pid))
		}
	}
}

// anonymousMemory returns 0 once the process has ended.
func anonymousMemory(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kib, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
