package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/checksum"
)

// BenchmarkGoClient compares the Go client with curl: the same connections, parts, ranges and digests,
// a process for each transfer of SLUICE_BENCH_BYTES (256 MiB if unset). curl does not verify, does not
// compute the digests that it sends, and does not sync what it receives.
func BenchmarkGoClient(b *testing.B) {
	const piece, peers = 16 << 20, 4
	size := int64(256 << 20)
	if text := os.Getenv("SLUICE_BENCH_BYTES"); text != "" {
		var err error
		if size, err = strconv.ParseInt(text, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	s := start(b, options{})
	dir := b.TempDir()
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	parts := writeParts(b, source, size, piece)
	run := func(name string, do func(b *testing.B) *exec.Cmd) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			var processor time.Duration
			for b.Loop() {
				ended := do(b).ProcessState
				processor += ended.UserTime() + ended.SystemTime()
			}
			b.ReportMetric(float64(processor.Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
	goClient := func(tr clientTransfer) func(b *testing.B) *exec.Cmd {
		tr.URL, tr.Size, tr.Peers = s.url, piece, peers
		return func(b *testing.B) *exec.Cmd {
			command := startTransfer(b, tr)
			peak := finishTransfer(b, command)
			b.ReportMetric(float64(peak>>20), "MiB")
			return command
		}
	}
	run("put/curl-without-digests", func(b *testing.B) *exec.Cmd { return s.curlPut(b, parts, size, piece, peers, false) })
	run("put/client-without-digests", goClient(clientTransfer{Path: source, Put: true, SkipVerify: true}))
	run("put/curl", func(b *testing.B) *exec.Cmd { return s.curlPut(b, parts, size, piece, peers, true) })
	run("put/client", goClient(clientTransfer{Path: source, Put: true}))
	run("get/curl", func(b *testing.B) *exec.Cmd { return s.curlGet(b, dir, size, piece, peers) })
	run("get/client-without-verification", goClient(clientTransfer{Path: target, SkipVerify: true}))
	run("get/client", goClient(clientTransfer{Path: target}))
}

// filePart is a part of a file, in a file of its own because curl cannot read a range of a file.
type filePart struct {
	path, digest string
	crc          uint64
	size         int64
}

// writeParts writes a file, and its parts.
func writeParts(b *testing.B, path string, size, partSize int64) []filePart {
	b.Helper()
	whole, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	random := stream(1)
	buffer := make([]byte, partSize)
	var parts []filePart
	for offset := int64(0); offset < size; offset += partSize {
		piece := buffer[:min(partSize, size-offset)]
		if _, err := random.Read(piece); err != nil {
			b.Fatal(err)
		}
		sum := sha256.Sum256(piece)
		part := filePart{fmt.Sprintf("%s-%d", path, len(parts)), "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":", checksum.Update(0, piece), int64(len(piece))}
		if _, err := whole.Write(piece); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(part.path, piece, 0o600); err != nil {
			b.Fatal(err)
		}
		parts = append(parts, part)
	}
	if err := whole.Close(); err != nil {
		b.Fatal(err)
	}
	return parts
}

// curl runs curl with a configuration.
func curl(b *testing.B, peers int, transfers []string) *exec.Cmd {
	b.Helper()
	command := exec.CommandContext(b.Context(), "curl", "--no-progress-meter", "--fail", "--parallel", "--parallel-max", strconv.Itoa(peers), "--config", "-")
	command.Stdin = strings.NewReader(strings.Join(transfers, "next\n"))
	if out, err := command.CombinedOutput(); err != nil {
		b.Fatalf("curl: %v\n%s", err, out)
	}
	return command
}

// curlPut uploads the parts and completes the upload.
func (s *server) curlPut(b *testing.B, parts []filePart, size, partSize int64, peers int, digests bool) *exec.Cmd {
	b.Helper()
	begin := fmt.Sprintf(`{"rawAccount":"0x1","rawBlobName":"big","rawPartSize":%d}`, partSize)
	var id struct{ UploadID string }
	s.must(200, "POST", "/v1/multipart-uploads", []byte(begin)).decode(b, &id)
	var transfers []string
	var whole checksum.Combiner
	var crc uint64
	for i, part := range parts {
		transfer := fmt.Sprintf("url = \"%s/v1/multipart-uploads/%s/parts/%d\"\nupload-file = %q\nheader = \"Expect:\"\nfail\noutput = /dev/null\nno-progress-meter\n", s.url, id.UploadID, i, part.path)
		if digests {
			transfer += "header = \"Content-Digest: " + part.digest + "\"\n"
		}
		transfers = append(transfers, transfer)
		crc = whole.Combine(crc, part.crc, part.size)
	}
	command := curl(b, peers, transfers)
	complete := fmt.Sprintf(`{"totalBytes":%d,"etag":%q}`, size, checksum.ETag(size, crc))
	s.must(200, "POST", "/v1/multipart-uploads/"+id.UploadID+"/complete", []byte(complete))
	return command
}

// curlGet downloads the ranges, each into a file.
func (s *server) curlGet(b *testing.B, dir string, size, rangeSize int64, peers int) *exec.Cmd {
	b.Helper()
	var transfers []string
	for offset := int64(0); offset < size; offset += rangeSize {
		transfers = append(transfers, fmt.Sprintf("url = \"%s%s\"\nrange = %d-%d\noutput = \"%s/got-%d\"\nfail\nno-progress-meter\n", s.url, blobTarget("0x1", "big"), offset, min(size, offset+rangeSize)-1, dir, offset))
	}
	return curl(b, peers, transfers)
}
