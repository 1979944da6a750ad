package resources

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// trace is the record of a server's system calls.
type trace struct {
	s    *e2e.Server
	file string
}

// startTraced runs a server under strace, with a data folder that may be in memory.
func startTraced(t *testing.T, calls string) *trace {
	t.Helper()
	return startTracedIn(t, "", calls)
}

// startTracedIn runs a server with this data folder under strace. The tracer is a grandchild, so
// the harness knows the server's own process.
func startTracedIn(t *testing.T, data, calls string) *trace {
	t.Helper()
	testenv.Require(t, testenv.Strace)
	file := filepath.Join(t.TempDir(), "trace")
	wrapper := []string{"strace", "-D", "-f", "--seccomp-bpf", "-q", "-y", "-s", "24", "-e", "trace=" + calls, "-e", "signal=none", "-o", file}
	return &trace{e2e.Start(t, e2e.Options{Data: data, Wrapper: wrapper}), file}
}

// call is one line in the record: a complete system call or, if another thread's call came between,
// its beginning or its end.
type call struct {
	name   string
	args   string
	begun  bool
	done   bool
	result int64 // once it is complete
}

// isSync reports whether the line ends a successful sync.
func (c call) isSync() bool { return strings.Contains(c.name, "sync") && c.done && c.result == 0 }

// isAnswer reports whether an HTTP response begins on the line, with a status that starts with this
// prefix. One with a file begins with the file: its head is another call, before.
func (c call) isAnswer(status string) bool {
	if c.name == "sendfile" && c.begun {
		return strings.HasPrefix("200", status)
	}
	return c.name == "write" && c.begun && strings.Contains(c.args, `"HTTP/1.1 `+status)
}

// calls stops the server and reads the record, in order.
func (tr *trace) calls() []call {
	tr.s.T.Helper()
	tr.s.Stop()
	return parseCalls(tr.s.T, tr.lines())
}

// parseCalls returns the calls in a record's lines.
func parseCalls(t testing.TB, lines []string) (all []call) {
	t.Helper()
	begun := map[string]string{} // arguments by thread
	for _, line := range lines {
		switch {
		case e2e.BegunCall.MatchString(line):
			m := e2e.BegunCall.FindStringSubmatch(line)
			begun[m[1]] = m[3]
			all = append(all, call{name: m[2], args: m[3], begun: true})
		case e2e.ResumedCall.MatchString(line):
			m := e2e.ResumedCall.FindStringSubmatch(line)
			all = append(all, call{name: m[2], args: begun[m[1]], done: true, result: e2e.Number(t, m[3])})
		case e2e.WholeCall.MatchString(line):
			m := e2e.WholeCall.FindStringSubmatch(line)
			all = append(all, call{m[1], m[2], true, true, e2e.Number(t, m[3])})
		}
	}
	return all
}

// lines reads the trace after the tracer has written its end.
func (tr *trace) lines() (lines []string) {
	tr.s.T.Helper()
	main := strconv.Itoa(tr.s.Command.Process.Pid)
	tr.s.Eventually("strace did not end", func() bool {
		text := testenv.Must(os.ReadFile(tr.file))(tr.s.T)
		lines = strings.Split(string(text), "\n")
		return slices.ContainsFunc(lines, func(line string) bool {
			exited := e2e.ExitedLine.FindStringSubmatch(line)
			return exited != nil && exited[1] == main
		})
	})
	return lines
}

// TestAcknowledgedIsSynced counts how often the server syncs the write-ahead log: for each
// acknowledged request there must be at least one between the previous response and its response.
func TestAcknowledgedIsSynced(t *testing.T) {
	t.Parallel()
	tr := startTraced(t, "fsync,fdatasync,write")
	s := tr.s
	const each = 20
	id := s.Session()
	s.Must(404, "GET", "/begin", nil)
	for range each {
		s.Must(200, "POST", "/v1/sessions/"+id+"/use", nil)
	}
	for i := range each {
		s.Must(204, "PUT", e2e.BlobTarget("0x1", fmt.Sprint("inline ", i)), []byte("x"))
	}
	s.Must(404, "GET", "/middle", nil)
	for i := range each {
		s.Must(204, "PUT", e2e.BlobTarget("0x1", fmt.Sprint("object ", i)), e2e.Content(1, 1<<20))
	}
	s.Must(404, "GET", "/end", nil)

	walSyncs, otherSyncs := 0, 0 // since the last response
	answers, markers := 0, 0
	for _, c := range tr.calls() {
		switch {
		case c.isSync() && strings.Contains(c.args, "-wal>"):
			walSyncs++
		case c.isSync():
			otherSyncs++
		case c.isAnswer("404"):
			markers++
			walSyncs, otherSyncs = 0, 0
		case c.isAnswer("20") && (markers == 1 || markers == 2):
			answers++
			if walSyncs == 0 {
				t.Errorf("response %d was sent without a sync of the write-ahead log", answers)
			}
			if markers == 2 && otherSyncs < 2 {
				t.Errorf("response %d to a large PUT was sent after %d syncs of files and folders, want one of each", answers, otherSyncs)
			}
			walSyncs, otherSyncs = 0, 0
		}
	}
	if answers != 3*each || markers != 3 {
		t.Errorf("found %d responses and %d markers in the trace, want %d and 3", answers, markers, 3*each)
	}
}

// TestSyncsOfSmallObjects counts the syncs of requests that store objects of 64 KiB on a disk, one
// after the other: the file's, and then the write-ahead log's.
// Invariant 1.
func TestSyncsOfSmallObjects(t *testing.T) {
	t.Parallel()
	tr := startTracedIn(t, filepath.Join(t.TempDir(), "data"), "fsync,fdatasync,write")
	tr.s.Must(404, "GET", "/begin", nil)
	const each = 30
	for i := range each {
		tr.s.Must(204, "PUT", e2e.BlobTarget("0x1", fmt.Sprint("object ", i)), e2e.Content(1, 64<<10))
	}
	answers, log, file := 0, 0, 0 // since the last response
	for _, c := range tr.calls() {
		switch {
		case c.isSync() && strings.Contains(c.args, "-wal>"):
			log += file // committed bodies must be durable before
		case c.isSync() && strings.Contains(c.args, "/.put-"):
			file++
		case c.isAnswer("204"):
			if answers++; log == 0 || file != 1 {
				t.Errorf("response %d was sent after %d syncs of files, and then %d of the log, want 1 and some", answers, file, log)
			}
			fallthrough
		case c.isAnswer("404"):
			log, file = 0, 0
		}
	}
	testenv.Equal(t, answers, each, "responses in the trace")
}

// TestObjectsAreDurableWhenConcurrent stores objects of 64 KiB over many connections. At each
// response, as many files were synced.
// Invariant 1.
func TestObjectsAreDurableWhenConcurrent(t *testing.T) {
	t.Parallel()
	tr := startTracedIn(t, filepath.Join(t.TempDir(), "data"), "fsync,write")
	tr.s.Must(404, "GET", "/begin", nil)
	const connections, each = 8, 20
	var work sync.WaitGroup
	for i := range connections {
		work.Go(func() {
			for k := range each {
				r, err := tr.s.Try("PUT", e2e.BlobTarget("0x1", fmt.Sprintf("object %d-%d", i, k)), e2e.Content(1, 64<<10))
				if err != nil || r.Status != 204 {
					t.Errorf("PUT: %v, %v", r, err)
				}
			}
		})
	}
	work.Wait()
	synced, answers := 0, 0
	for _, c := range tr.calls() {
		switch {
		case c.isAnswer("404"):
			synced = 0 // the start has stored objects, too
		case c.isAnswer("204"):
			if answers++; answers > synced {
				t.Errorf("response %d was sent when %d objects were synced", answers, synced)
			}
		case c.isSync() && strings.Contains(c.args, "/.put-"):
			synced++
		}
	}
	testenv.Equal(t, answers, connections*each, "responses in the trace")
}

// TestUploadsAreWrittenEarly checks that the server asks the system to write a large body to disk
// while it receives the rest, and that it syncs the file nevertheless.
func TestUploadsAreWrittenEarly(t *testing.T) {
	t.Parallel()
	tr := startTraced(t, "sync_file_range,fsync,renameat2,write")
	tr.s.Must(204, "PUT", e2e.BlobTarget("0x1", "large"), e2e.Content(1, 16<<20))
	var order []string
	for _, c := range tr.calls() {
		if c.done && c.name != "write" && strings.Contains(c.args, "/.put-") {
			order = append(order, c.name)
		}
	}
	// The first start and the end have stored objects, too, which are small.
	first := slices.Index(order, "sync_file_range")
	want := []string{"sync_file_range", "sync_file_range", "sync_file_range", "fsync", "renameat2"}
	if first < 0 || !slices.Equal(order[first:min(first+len(want), len(order))], want) {
		t.Errorf("the calls for temporary files are %q, want %q for the body", order, want)
	}
}

// TestSendfile counts the bytes that the server sends with sendfile when a client reads a large
// blob again.
func TestSendfile(t *testing.T) {
	t.Parallel()
	tr := startTraced(t, "sendfile,write")
	s := tr.s
	const size = 64<<20 + 12345
	data := e2e.Content(1, size)
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "by put"), data)
	s.Upload("0x1", "by parts", data, 5<<20)
	for _, name := range []string{"by put", "by parts"} {
		s.Must(200, "GET", e2e.BlobTarget("0x1", name), nil)
		s.Must(404, "GET", "/begin", nil)
		s.Holds(e2e.BlobTarget("0x1", name), data)
		s.Must(404, "GET", "/end", nil)
	}
	var sent [5]int64 // by number of markers seen: before, warm, between, warm, after
	var count [5]int
	markers := 0
	for _, c := range tr.calls() {
		switch {
		case c.isAnswer("404"):
			markers = min(markers+1, 4)
		case c.name == "sendfile" && c.done && c.result > 0:
			sent[markers] += c.result
			count[markers]++
		}
	}
	if markers != 4 {
		t.Fatalf("found %d markers in the trace, want 4", markers)
	}
	for i, name := range map[int]string{1: "by put", 3: "by parts"} {
		t.Logf("%s: %d bytes in %d calls of sendfile", name, sent[i], count[i])
		if sent[i] < size*9/10 {
			t.Errorf("%s: %d of %d bytes were sent by sendfile when warm", name, sent[i], size)
		}
		if count[i] < 60 {
			t.Errorf("%s: %d calls of sendfile: each should cover more than 1 MiB", name, count[i])
		}
	}
}

// requestCalls are numbers of system calls.
type requestCalls struct {
	toSocket, fromSocket int // that moved bytes
	toLog                int
	toFiles, syncs       int // including locks
}

// TestSystemCallsOfRequests counts the system calls for small requests on one connection. Their
// number must not grow.
// Invariant 70.
func TestSystemCallsOfRequests(t *testing.T) {
	t.Parallel()
	tr := startTraced(t, "read,write,writev,sendto,sendmsg,sendfile,pread64,pwrite64,fsync,fdatasync,fcntl,openat,newfstatat,fstat")
	s := tr.s
	const each = 40
	body := e2e.Content(1, 4<<10)
	id := s.Session()
	target, file := e2e.BlobTarget("0x1", "small"), e2e.BlobTarget("0x1", "file")
	s.Must(204, "PUT", target, body)
	tag := s.Must(200, "GET", target, nil).Header.Get("ETag")
	s.Must(204, "PUT", file, e2e.Content(2, 64<<10))
	s.Must(200, "GET", file, nil) // it is checked, and its file stays open
	put := 0
	requests := []struct {
		name string
		send func()
		most requestCalls // of the request that had the fewest
	}{
		{"GET", func() { s.Must(200, "GET", target, nil) }, requestCalls{toSocket: 1, fromSocket: 1}},
		{"GET of a file", func() { s.Must(200, "GET", file, nil) }, requestCalls{toSocket: 2, fromSocket: 1}},
		{"HEAD", func() { s.Must(200, "HEAD", target, nil) }, requestCalls{toSocket: 1, fromSocket: 1}},
		{"304", func() { s.Must(304, "GET", target, nil, "If-None-Match", tag) }, requestCalls{toSocket: 1, fromSocket: 1}},
		// Each stores another blob: the server frees a replaced blob in the background, at any
		// time. A page costs two calls, and one of eight pages is written only when the database
		// has free pages.
		{"PUT", func() { put++; s.Must(204, "PUT", e2e.BlobTarget("0x1", fmt.Sprint("small ", put)), body) }, requestCalls{toSocket: 1, fromSocket: 2, toFiles: 22, syncs: 1}},
		{"use", func() { s.Must(200, "POST", "/v1/sessions/"+id+"/use", nil) }, requestCalls{toSocket: 1, fromSocket: 1, toFiles: 8, syncs: 1}},
	}
	for _, one := range requests {
		s.Must(404, "GET", "/"+url.PathEscape(one.name), nil)
		for range each {
			one.send()
		}
	}
	s.Must(404, "GET", "/end", nil)

	counts := make([][]requestCalls, len(requests)) // of each request
	markers := 0
	var now requestCalls
	for _, c := range tr.calls() {
		now.count(c)
		if !c.isAnswer("") {
			continue
		}
		if c.isAnswer("404") {
			markers++
		} else if 0 < markers && markers <= len(requests) {
			counts[markers-1] = append(counts[markers-1], now)
		}
		now = requestCalls{}
	}
	if markers != len(requests)+1 {
		t.Fatalf("found %d markers in the trace, want %d", markers, len(requests)+1)
	}
	for i, one := range requests {
		n, most := leastOf(counts[i]), one.most
		t.Logf("%s: %+v", one.name, n)
		if len(counts[i]) != each || n.toSocket == 0 || n.fromSocket == 0 {
			t.Errorf("%s: %d requests of %d, each with %+v: the test does not recognize them", one.name, len(counts[i]), each, n)
		}
		if n.toSocket > most.toSocket || n.fromSocket > most.fromSocket || n.toLog > most.toLog || n.toFiles > most.toFiles || n.syncs > most.syncs {
			t.Errorf("%s: %+v, want at most %+v", one.name, n, most)
		}
	}
}

// leastOf returns the least of each number: on a busy machine, background tasks have calls in most
// requests.
func leastOf(counts []requestCalls) requestCalls {
	if len(counts) == 0 {
		return requestCalls{}
	}
	least := counts[0]
	for _, n := range counts {
		least.toSocket = min(least.toSocket, n.toSocket)
		least.fromSocket = min(least.fromSocket, n.fromSocket)
		least.toLog = min(least.toLog, n.toLog)
		least.toFiles = min(least.toFiles, n.toFiles)
		least.syncs = min(least.syncs, n.syncs)
	}
	return least
}

// count adds a line of the record. A call to send counts where it begins, since the response ends
// the request's part of the record, and another call where it has succeeded.
func (n *requestCalls) count(c call) {
	socket := strings.Contains(c.args, "<socket:") || strings.Contains(c.args, "<TCP")
	succeeded := c.done && c.result >= 0
	switch {
	case socket && c.name != "read":
		if c.begun {
			n.toSocket++
		}
	case !succeeded:
	case socket:
		n.fromSocket++
	case c.isSync():
		n.syncs++
	case c.name == "write" && strings.HasPrefix(c.args, "2<"):
		n.toLog++
	case c.name == "read" || c.name == "write": // the runtime wakes its threads
	default:
		n.toFiles++
	}
}
