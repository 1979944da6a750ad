package clients

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/checksum"
	"sluice/e2e"
	"sluice/test/testenv"
)

// BenchmarkGoClient compares the Go client with curl: the same connections, parts, ranges and
// digests, and a process for each transfer of SLUICE_BENCH_BYTES (256 MiB if unset). With digests
// and verification the client is the built binary, which always has them. curl does not verify,
// does not compute the digests that it sends, and does not sync the received file.
//
// An iteration is a transfer by each of them, in alternating order. The results are medians:
// "speed" is curl's duration divided by the client's, and "cpu" the client's processor time divided
// by curl's.
func BenchmarkGoClient(b *testing.B) {
	const piece, peers = 16 << 20, 4 // the binary's
	size := int64(256 << 20)
	if text := os.Getenv("SLUICE_BENCH_BYTES"); text != "" {
		var err error
		if size, err = strconv.ParseInt(text, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	s := e2e.Start(b, e2e.Options{})
	dir := b.TempDir()
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	parts := writeParts(b, source, size, piece)
	child := func(tr clientTransfer) func(b *testing.B) *os.ProcessState {
		tr.URL, tr.Size, tr.Peers = s.URL, piece, peers
		return func(b *testing.B) *os.ProcessState {
			command := startTransfer(b, tr)
			peak := finishTransfer(b, command)
			b.ReportMetric(float64(peak>>20), "MiB")
			return command.ProcessState
		}
	}
	binary := func(args ...string) func(b *testing.B) *os.ProcessState {
		return func(b *testing.B) *os.ProcessState {
			command := exec.CommandContext(b.Context(), e2e.Sluice, append(args, "--url", s.URL, "-q")...)
			if out, err := command.CombinedOutput(); err != nil {
				b.Fatalf("%v\n%s", err, out)
			}
			return command.ProcessState
		}
	}
	curlPut := func(b *testing.B) *os.ProcessState { return curlPut(s, b, parts, size, piece, peers) }
	// For the downloads.
	finishTransfer(b, startTransfer(b, clientTransfer{URL: s.URL, Path: source, Put: true, Size: piece, Peers: peers}))
	curlGet := func(b *testing.B) *os.ProcessState { return curlGet(s, b, dir, size, piece, peers) }
	for _, test := range []struct {
		name         string
		curl, client func(b *testing.B) *os.ProcessState
	}{
		{"put", curlPut, binary("put", source, "0x1/big")},
		{"get-without-verification", curlGet, child(clientTransfer{Path: target, SkipVerify: true})},
		{"get", curlGet, binary("get", "0x1/big", target)},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.SetBytes(2 * size)
			var c comparison
			for b.Loop() {
				c.add(b, test.curl, test.client, func() {
					b.StopTimer()
					defer b.StartTimer()
					removeAll(b, target, filepath.Join(dir, "got-*"))
				})
			}
			c.report(b)
		})
	}
}

// removeAll removes the files that match patterns.
func removeAll(b *testing.B, patterns ...string) {
	b.Helper()
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		for _, name := range names {
			err = errors.Join(err, os.Remove(name))
		}
		testenv.OK(b, err)
	}
}

// comparison collects durations and processor times of two programs, in seconds.
type comparison struct {
	times, processor [2][]float64 // curl's and the client's
}

// add runs both programs, with prepare before each of them.
func (c *comparison) add(b *testing.B, curl, client func(b *testing.B) *os.ProcessState, prepare func()) {
	b.Helper()
	programs := []int{0, 1}
	if len(c.times[0])%2 == 1 {
		slices.Reverse(programs)
	}
	for _, i := range programs {
		prepare()
		begun := time.Now()
		ended := []func(*testing.B) *os.ProcessState{curl, client}[i](b)
		c.times[i] = append(c.times[i], time.Since(begun).Seconds())
		c.processor[i] = append(c.processor[i], (ended.UserTime() + ended.SystemTime()).Seconds())
	}
}

func (c *comparison) report(b *testing.B) {
	speeds, processor := make([]float64, len(c.times[0])), make([]float64, len(c.times[0]))
	for i := range speeds {
		speeds[i], processor[i] = c.times[0][i]/c.times[1][i], c.processor[1][i]/c.processor[0][i]
	}
	b.ReportMetric(middle(speeds), "speed")
	b.ReportMetric(middle(processor), "cpu")
	b.ReportMetric(middle(c.times[0]), "curl-s")
	b.ReportMetric(middle(c.times[1]), "client-s")
	b.ReportMetric(middle(c.processor[0]), "curl-cpu-s")
	b.ReportMetric(middle(c.processor[1]), "client-cpu-s")
}

// middle returns the median, or the larger one if two are in the middle.
func middle(numbers []float64) float64 { return slices.Sorted(slices.Values(numbers))[len(numbers)/2] }

// filePart is one part, in a file of its own because curl cannot read a range from a file.
type filePart struct {
	path string
	crc  uint64
	size int64
}

// writeParts writes a file, and its parts.
func writeParts(b *testing.B, path string, size, partSize int64) []filePart {
	b.Helper()
	whole, err := os.Create(path)
	testenv.OK(b, err)
	random := e2e.Stream(1)
	buffer := make([]byte, partSize)
	var parts []filePart
	for offset := int64(0); offset < size; offset += partSize {
		piece := buffer[:min(partSize, size-offset)]
		if _, err := random.Read(piece); err != nil {
			b.Fatal(err)
		}
		part := filePart{fmt.Sprintf("%s-%d", path, len(parts)), checksum.Update(0, piece), int64(len(piece))}
		if _, err := whole.Write(piece); err != nil {
			b.Fatal(err)
		}
		testenv.OK(b, os.WriteFile(part.path, piece, 0o600))
		parts = append(parts, part)
	}
	testenv.OK(b, whole.Close())
	return parts
}

// curl runs curl with a configuration.
func curl(b *testing.B, peers int, transfers []string) *os.ProcessState {
	b.Helper()
	command := exec.CommandContext(b.Context(), "curl", "--no-progress-meter", "--fail", "--parallel", "--parallel-max", strconv.Itoa(peers), "--config", "-")
	command.Stdin = strings.NewReader(strings.Join(transfers, "next\n"))
	if out, err := command.CombinedOutput(); err != nil {
		b.Fatalf("curl: %v\n%s", err, out)
	}
	return command.ProcessState
}

// curlPut uploads the parts and completes the upload.
func curlPut(s *e2e.Server, b *testing.B, parts []filePart, size, partSize int64, peers int) *os.ProcessState {
	b.Helper()
	begin := fmt.Sprintf(`{"rawAccount":"0x1","rawBlobName":"big","rawPartSize":%d}`, partSize)
	var id struct{ UploadID string }
	s.Must(200, "POST", "/v1/multipart-uploads", []byte(begin)).Decode(b, &id)
	var transfers []string
	var whole checksum.Combiner
	var crc uint64
	for i, part := range parts {
		transfer := fmt.Sprintf("url = \"%s/v1/multipart-uploads/%s/parts/%d\"\nupload-file = %q\nheader = \"Expect:\"\nfail\noutput = /dev/null\nno-progress-meter\n", s.URL, id.UploadID, i, part.path)
		transfers = append(transfers, transfer)
		crc = whole.Combine(crc, part.crc, part.size)
	}
	ended := curl(b, peers, transfers)
	complete := fmt.Sprintf(`{"totalBytes":%d,"etag":%q}`, size, checksum.ETag(size, crc))
	s.Must(200, "POST", "/v1/multipart-uploads/"+id.UploadID+"/complete", []byte(complete))
	return ended
}

// curlGet downloads the ranges, each into a file.
func curlGet(s *e2e.Server, b *testing.B, dir string, size, rangeSize int64, peers int) *os.ProcessState {
	b.Helper()
	var transfers []string
	for offset := int64(0); offset < size; offset += rangeSize {
		transfers = append(transfers, fmt.Sprintf("url = \"%s%s\"\nrange = %d-%d\noutput = \"%s/got-%d\"\nfail\nno-progress-meter\n", s.URL, e2e.BlobTarget("0x1", "big"), offset, min(size, offset+rangeSize)-1, dir, offset))
	}
	return curl(b, peers, transfers)
}
